-- name: one_at_a_time
-- Two relays at once would each see the room that only one of them may fill.
SELECT pg_advisory_xact_lock(hashtextextended('bulk_pipelines.relay', 0));

-- name: launched_by_kind
-- Jobs at work or on their way to it: what the limits count.
SELECT kind, owner, count(*) FROM job
WHERE (NOT run_wanted OR offered_at IS NOT NULL) AND status IN ('SUBMITTED', 'RUNNING')
GROUP BY kind, owner;

-- name: repeated_offers
-- Jobs that were offered a while ago and have not begun. They have their room already.
SELECT job_key, kind, dispatch_count, priority, owner, job_id FROM job
WHERE (NOT run_wanted OR offered_at IS NOT NULL) AND status IN ('SUBMITTED', 'RUNNING')
    AND run_wanted AND kind = ANY (:kinds::text[]) AND offered_at < now() - make_interval(secs => :again_after);

-- name: wanting_jobs
-- Jobs to launch of the kinds that have room, the most urgent of each owner that has room: as many as both may have at the
-- most, whoever else waits. One that waits for others is not there before they are over.
-- The owners of a kind are found by going from one to the next in the index: whoever submits a hundred thousand jobs costs
-- as little as one who submits ten.
WITH RECURSIVE open_kind AS (
    SELECT * FROM unnest(:kinds::text[], :rooms::int[]) AS k (kind, room)
),
busy AS (
    SELECT * FROM unnest(:owners::text[], :left::int[]) AS b (owner, room)
),
queue AS (
    SELECT kind, room, (
        SELECT min(owner) FROM job
        WHERE run_wanted AND offered_at IS NULL AND status IN ('SUBMITTED', 'RUNNING') AND job.kind = open_kind.kind
    ) AS owner
    FROM open_kind
    UNION ALL
    SELECT kind, room, (
        SELECT min(owner) FROM job
        WHERE run_wanted AND offered_at IS NULL AND status IN ('SUBMITTED', 'RUNNING') AND job.kind = queue.kind
            AND job.owner > queue.owner
    )
    FROM queue WHERE owner IS NOT NULL
),
candidate AS (
    SELECT waiting.*, queue.room,
        row_number() OVER (PARTITION BY queue.kind ORDER BY waiting.priority DESC, waiting.job_id) AS place
    FROM queue
    LEFT JOIN busy ON busy.owner = queue.owner
    CROSS JOIN LATERAL (
        SELECT job_key, kind, dispatch_count, priority, owner, job_id FROM job
        WHERE run_wanted AND offered_at IS NULL AND status IN ('SUBMITTED', 'RUNNING')
            AND job.kind = queue.kind AND job.owner = queue.owner
            AND NOT EXISTS (
                SELECT FROM job AS earlier
                WHERE earlier.job_id = ANY (job.waits_for) AND earlier.finished_at IS NULL
            )
        ORDER BY priority DESC, job_id
        LIMIT least(queue.room, coalesce(busy.room, :of_owner::int))
    ) AS waiting
    WHERE queue.owner IS NOT NULL AND coalesce(busy.room, :of_owner::int) > 0
)
-- An owner's room may be filled by another kind: for each place that is lost so there is one more.
SELECT job_key, kind, dispatch_count, priority, owner, job_id FROM candidate
WHERE place <= room + :in_one_pass::int;

-- name: mark_offered
-- They keep a place in the limits from now on. Not what was paused, cancelled or taken since it was chosen, nor what
-- somebody holds at this moment: that is offered with the next look.
UPDATE job
SET first_offered_at = CASE WHEN offered_at IS NULL THEN now() ELSE coalesce(first_offered_at, now()) END,
    offered_at = now(),
    updated_at = now()
WHERE job_id = ANY (ARRAY(
    SELECT job_id FROM job
    WHERE job_id = ANY (:job_ids::bigint[]) AND run_wanted AND status IN ('SUBMITTED', 'RUNNING')
    ORDER BY job_id
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING job_id;

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
-- The run that works the job has spent its budget, and wants another one to go on. Not if another one has come already:
-- that goes by who took the job up last, and not by who wrote its id last, which a step of any run does.
UPDATE job
SET run_wanted = true, dispatch_count = dispatch_count + 1, vain_launches = 0, offered_at = NULL, updated_at = now()
WHERE job_id = :job_id AND status = 'RUNNING' AND NOT run_wanted AND :dagster_run_id = (
    SELECT dagster_run_id FROM job_run WHERE job_run.job_id = job.job_id ORDER BY taken_up_at DESC LIMIT 1
)
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
