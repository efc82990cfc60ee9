-- name: one_at_a_time
-- Two relays at once would each see the room that only one of them may fill.
SELECT pg_advisory_xact_lock(hashtextextended('bulk_pipelines.relay', 0));

-- name: wanting_jobs
-- Jobs to launch, the most urgent first. One that was offered and has not begun is offered again only after a while;
-- one that waits for others, not before they are over.
SELECT job_key, kind, dispatch_count, priority, owner, offered_at IS NOT NULL AS counted
FROM job
WHERE run_wanted AND status IN ('SUBMITTED', 'RUNNING') AND kind = ANY (:kinds::text[])
    AND (offered_at IS NULL OR offered_at < now() - make_interval(secs => :again_after))
    AND NOT EXISTS (
        SELECT FROM job AS earlier WHERE earlier.job_id = ANY (job.waits_for) AND earlier.finished_at IS NULL
    )
ORDER BY priority DESC, job_id
LIMIT :most
FOR NO KEY UPDATE SKIP LOCKED;

-- name: active_jobs
-- Jobs at work or on their way to it: what the limits count.
SELECT kind, owner, count(*) FROM job
WHERE status IN ('SUBMITTED', 'RUNNING') AND (NOT run_wanted OR offered_at IS NOT NULL)
GROUP BY kind, owner;

-- name: mark_offered!
-- They keep a place in the limits from now on.
UPDATE job SET offered_at = now(), updated_at = now() WHERE job_key = ANY (:job_keys::text[]);

-- name: run_has_begun!
-- A run works the job: nothing more to offer. Returns whether the job is there.
UPDATE job
SET run_wanted = false, offered_at = NULL, heartbeat_at = now(),
    dagster_run_id = coalesce(:dagster_run_id, dagster_run_id)
WHERE job_id = :job_id;

-- name: want_run!
-- The next launch of a job that nobody works: after a pause, a redrive, a spent budget, a run that was lost.
UPDATE job
SET run_wanted = true, dispatch_count = dispatch_count + 1, offered_at = NULL, updated_at = now()
WHERE job_id = :job_id AND NOT (run_wanted AND offered_at IS NULL);

-- name: beat!
-- Somebody is at work on the job, though no item moves.
UPDATE job SET heartbeat_at = now() WHERE job_id = :job_id;

-- name: launched_jobs
-- Unfinished jobs that were launched and have not been heard of for a while: is there still a run behind them?
SELECT job_id, job_key, kind, status, dagster_run_id, run_wanted, dispatch_count
FROM job
WHERE status IN ('SUBMITTED', 'RUNNING')
    AND (NOT run_wanted OR offered_at IS NOT NULL)
    AND greatest(heartbeat_at, offered_at, created_at) < now() - make_interval(secs => :silent_seconds)
ORDER BY job_id
LIMIT :most;
