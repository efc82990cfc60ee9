-- name: one_at_a_time
-- Two relays at once would each see the room that only one of them may fill.
SELECT pg_advisory_xact_lock(hashtextextended('bulk_pipelines.relay', 0));

-- name: wanting_jobs
-- Jobs to launch, the most urgent first. One that was offered and has not begun is offered again only after a while;
-- one that waits for others, not before they are over. No more of one owner and kind than may run at all: whoever submits
-- thousands of jobs does not hide those of the others.
WITH ranked AS (
    SELECT job_id, row_number() OVER (PARTITION BY owner, kind ORDER BY priority DESC, job_id) AS place
    FROM job
    WHERE run_wanted AND status IN ('SUBMITTED', 'RUNNING') AND kind = ANY (:kinds::text[])
        AND (offered_at IS NULL OR offered_at < now() - make_interval(secs => :again_after))
        AND NOT EXISTS (
            SELECT FROM job AS earlier WHERE earlier.job_id = ANY (job.waits_for) AND earlier.finished_at IS NULL
        )
)
SELECT job_key, kind, dispatch_count, priority, owner, offered_at IS NOT NULL AS counted
FROM job JOIN ranked USING (job_id)
WHERE place <= :most_of_each AND run_wanted AND status IN ('SUBMITTED', 'RUNNING')
ORDER BY priority DESC, job_id
LIMIT :most
FOR NO KEY UPDATE OF job SKIP LOCKED;

-- name: active_jobs
-- Jobs at work or on their way to it: what the limits count.
SELECT kind, owner, count(*) FROM job
WHERE status IN ('SUBMITTED', 'RUNNING') AND (NOT run_wanted OR offered_at IS NOT NULL)
GROUP BY kind, owner;

-- name: mark_offered!
-- They keep a place in the limits from now on.
UPDATE job
SET first_offered_at = CASE WHEN offered_at IS NULL THEN now() ELSE coalesce(first_offered_at, now()) END,
    offered_at = now(),
    updated_at = now()
WHERE job_key = ANY (:job_keys::text[]);

-- name: put_off!
-- As if they had been offered a while ago: the next offer comes sooner.
UPDATE job SET offered_at = now() - make_interval(secs => :seconds)
WHERE job_key = ANY (:job_keys::text[]) AND run_wanted AND offered_at IS NOT NULL;

-- name: take_launch
-- Somebody works the job without the relay. Not when it has a run, or is on its way to one; but when nothing has been
-- heard of that for long.
UPDATE job
SET run_wanted = false, offered_at = NULL, heartbeat_at = now()
WHERE job_id = :job_id AND status IN ('SUBMITTED', 'RUNNING')
    AND (
        (run_wanted AND (offered_at IS NULL OR offered_at < now() - make_interval(secs => :again_after)))
        OR greatest(heartbeat_at, offered_at, created_at) < now() - make_interval(secs => :silent_seconds)
    )
RETURNING job_id;

-- name: run_has_begun!
-- A run works the job: nothing more to offer. Returns whether the job is there.
UPDATE job
SET run_wanted = false, offered_at = NULL, heartbeat_at = now(),
    dagster_run_id = coalesce(:dagster_run_id, dagster_run_id)
WHERE job_id = :job_id;

-- name: want_run!
-- The next launch of a job that nobody works: after a pause, or because the last run came to nothing.
UPDATE job
SET run_wanted = true,
    dispatch_count = dispatch_count + 1,
    vain_launches = CASE WHEN :in_vain THEN vain_launches + 1 ELSE 0 END,
    offered_at = NULL,
    updated_at = now()
WHERE job_id = :job_id AND NOT (run_wanted AND offered_at IS NULL);

-- name: hand_over
-- The run that works the job has spent its budget, and wants another one to go on. Not if another one has come already.
UPDATE job
SET run_wanted = true, dispatch_count = dispatch_count + 1, vain_launches = 0, offered_at = NULL, updated_at = now()
WHERE job_id = :job_id AND status = 'RUNNING' AND NOT run_wanted AND dagster_run_id = :dagster_run_id
RETURNING job_id;

-- name: beat!
-- Somebody is at work on the job, though no item moves.
UPDATE job SET heartbeat_at = now() WHERE job_id = :job_id;

-- name: launched_jobs
-- Unfinished jobs that were launched and have not been heard of for a while: is there still a run behind them?
SELECT job_id, job_key, kind, status, dagster_run_id, run_wanted, vain_launches
FROM job
WHERE status IN ('SUBMITTED', 'RUNNING')
    AND (NOT run_wanted OR offered_at IS NOT NULL)
    AND greatest(heartbeat_at, first_offered_at, created_at) < now() - make_interval(secs => :silent_seconds)
ORDER BY job_id
LIMIT :most;
