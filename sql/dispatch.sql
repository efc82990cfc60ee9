-- name: one_at_a_time
-- Two relays at once would each see the room that only one of them may fill.
SELECT pg_advisory_xact_lock(hashtextextended('bulk_pipelines.relay', 0));

-- name: offer_runs
-- Jobs to launch now, the most urgent first, within the limits of running jobs per kind and per owner.
-- One that was offered and has not begun keeps its place in the limits; it is offered again only after a while.
WITH active AS (
    SELECT kind, owner, job_id FROM job
    WHERE status IN ('SUBMITTED', 'RUNNING') AND (NOT run_wanted OR offered_at IS NOT NULL)
),
wanting AS (
    SELECT job_id, job_key, kind, owner, priority, dispatch_count, offered_at FROM job
    WHERE run_wanted AND status IN ('SUBMITTED', 'RUNNING') AND kind = ANY (:kinds::text[])
        AND (offered_at IS NULL OR offered_at < now() - make_interval(secs => :again_after))
    FOR NO KEY UPDATE SKIP LOCKED
),
ranked AS (
    SELECT *,
        count(*) FILTER (WHERE offered_at IS NULL)
            OVER (PARTITION BY kind ORDER BY priority DESC, job_id) AS place_in_kind,
        count(*) FILTER (WHERE offered_at IS NULL)
            OVER (PARTITION BY owner ORDER BY priority DESC, job_id) AS place_of_owner
    FROM wanting
),
chosen AS (
    SELECT job_id FROM ranked
    WHERE offered_at IS NOT NULL OR (
        place_in_kind + (SELECT count(*) FROM active WHERE active.kind = ranked.kind) <= :most_of_kind
        AND place_of_owner + (SELECT count(*) FROM active WHERE active.owner = ranked.owner) <= :most_of_owner
    )
    ORDER BY priority DESC, job_id
    LIMIT :most
)
UPDATE job SET offered_at = now(), updated_at = now()
FROM chosen WHERE job.job_id = chosen.job_id
RETURNING job.job_key, job.kind, job.dispatch_count, job.priority;

-- name: run_has_begun
-- A run works the job: nothing more to offer. Returns whether the job is there.
UPDATE job
SET run_wanted = false, offered_at = NULL, heartbeat_at = now(),
    dagster_run_id = coalesce(:dagster_run_id, dagster_run_id)
WHERE job_id = :job_id;

-- name: want_run
-- The next launch of a job that nobody works: after a pause, a redrive, a spent budget, a run that was lost.
UPDATE job
SET run_wanted = true, dispatch_count = dispatch_count + 1, offered_at = NULL, updated_at = now()
WHERE job_id = :job_id AND NOT (run_wanted AND offered_at IS NULL);

-- name: beat
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
