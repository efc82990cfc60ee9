-- What the relay and the runs go by.

-- Which runs have taken a job up. What the beginning of a run means (a pause undone, dead letters tried again) is decided
-- once a run, whatever its steps are and however often they are tried.
CREATE TABLE job_run (
    dagster_run_id text PRIMARY KEY,
    job_id bigint NOT NULL REFERENCES job ON DELETE CASCADE,
    taken_up_at timestamptz NOT NULL DEFAULT now(),
    -- What was buried is being put back: a run that dies in the middle goes on with it.
    redriving boolean NOT NULL DEFAULT false
);

CREATE INDEX job_run_of_job ON job_run (job_id, taken_up_at);

-- The relay asks for those of one owner and kind that have room, so thousands of jobs that have none are never read.
DROP INDEX job_wants_run;
CREATE INDEX job_wants_run ON job (kind, owner, priority DESC, job_id)
    WHERE run_wanted AND offered_at IS NULL AND status IN ('SUBMITTED', 'RUNNING');
-- Jobs at work or on their way to it: few, however many wait.
CREATE INDEX job_launched ON job (kind, owner)
    WHERE (NOT run_wanted OR offered_at IS NOT NULL) AND status IN ('SUBMITTED', 'RUNNING');
