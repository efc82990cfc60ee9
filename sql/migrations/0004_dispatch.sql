-- Which jobs want a run of Dagster: the outbox between what is submitted and what is launched.

ALTER TABLE job
    ADD COLUMN priority smallint NOT NULL DEFAULT 0,
    -- Nobody works the job and somebody should: the relay offers it until a run has begun.
    ADD COLUMN run_wanted boolean NOT NULL DEFAULT true,
    -- Names the launch. The same launch offered twice is one run; another one has another number.
    ADD COLUMN dispatch_count integer NOT NULL DEFAULT 0,
    ADD COLUMN offered_at timestamptz,
    ADD CONSTRAINT job_dispatch_count_is_not_negative CHECK (dispatch_count >= 0);

CREATE INDEX job_wants_run ON job (priority DESC, job_id)
    WHERE run_wanted AND status IN ('SUBMITTED', 'RUNNING');
