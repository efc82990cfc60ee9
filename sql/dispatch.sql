-- name: one_at_a_time
-- Lets one relay at a time choose launches: two at once would each see the same room, which only one of them may fill.
SELECT pg_advisory_xact_lock(hashtextextended('bulk_pipelines.relay', 0));

-- name: launched_by_kind
-- Counts the jobs that are at work or on their way to it, for each kind and owner: the limits are about these.
SELECT kind, owner, count(*) FROM job
WHERE (NOT run_wanted OR offered_at IS NOT NULL) AND status IN ('SUBMITTED', 'RUNNING')
GROUP BY kind, owner;

-- name: repeated_offers
-- Jobs that were offered a while ago and have not begun. They have their room in the limits already.
SELECT job_key, kind, dispatch_count, priority, owner, job_id FROM job
WHERE (NOT run_wanted OR offered_at IS NOT NULL) AND status IN ('SUBMITTED', 'RUNNING')
    AND run_wanted AND kind = ANY (:kinds::text[]) AND offered_at < now() - make_interval(secs => :again_after);

-- name: wanting_jobs
-- Jobs to launch, of the kinds and owners that have room: the most urgent ones of each owner, at most as many as both
-- the kind and the owner have room for, whoever else waits. A job that waits for others is not among them before those
-- are over.
-- The query finds the owners of a kind by going from one to the next in the index, so an owner who submits a hundred
-- thousand jobs costs as little as one who submits ten.
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
-- A job of another kind may fill the room of an owner. The query returns in_one_pass more jobs of each kind, to make
-- up for the places that are lost in that way.
SELECT job_key, kind, dispatch_count, priority, owner, job_id FROM candidate
WHERE place <= room + :in_one_pass::int;

-- name: mark_offered
-- Notes that these jobs were offered; from now on they keep a place in the limits. The query leaves out jobs that were
-- paused, cancelled or taken since they were chosen, and jobs whose row somebody has locked at this moment: the next
-- look offers those.
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
-- Dates the last offer of these jobs back, so that the next offer comes sooner.
UPDATE job SET offered_at = now() - make_interval(secs => :seconds)
WHERE job_key = ANY (:job_keys::text[]) AND run_wanted AND offered_at IS NOT NULL;

-- name: take_launch
-- Takes the launch of a job for somebody who works it without the relay. No row comes back when the job has a run or is
-- on its way to one, unless nothing has been heard of that for long (as in launched_jobs).
UPDATE job
SET run_wanted = false, offered_at = NULL, heartbeat_at = now()
WHERE job_id = :job_id AND status IN ('SUBMITTED', 'RUNNING')
    AND (
        (run_wanted AND (offered_at IS NULL OR offered_at < now() - make_interval(secs => :again_after)))
        OR (
            greatest(heartbeat_at, offered_at, created_at) < now() - make_interval(secs => :silent_seconds)
            AND (
                pending_items + running_items > 0 OR retry_wait_items = 0
                OR least(
                    (SELECT due_at FROM job_item AS item
                     WHERE item.job_id = job.job_id AND item.status = 'RETRY_WAIT' AND death_count = 0 ORDER BY due_at LIMIT 1),
                    (SELECT min(due_at) FROM job_item AS item
                     WHERE item.job_id = job.job_id AND item.status = 'RETRY_WAIT' AND death_count > 0)
                ) >= now() - make_interval(secs => :silent_seconds) IS NOT TRUE
            )
        )
    )
RETURNING job_id;

-- name: run_has_begun!
-- Notes that a run works the job, so there is nothing more to offer.
UPDATE job
SET run_wanted = false, offered_at = NULL, heartbeat_at = now(),
    dagster_run_id = coalesce(:dagster_run_id, dagster_run_id)
WHERE job_id = :job_id;

-- name: want_run!
-- Asks for the next launch of a job that nobody works: after a pause, or because the last run came to nothing.
UPDATE job
SET run_wanted = true,
    dispatch_count = dispatch_count + 1,
    vain_launches = CASE WHEN :in_vain THEN vain_launches + 1 ELSE 0 END,
    offered_at = NULL,
    updated_at = now()
WHERE job_id = :job_id AND NOT (run_wanted AND offered_at IS NULL);

-- name: hand_over
-- Asks for another run, because the run that works the job has spent its budget and wants another one to go on. No row
-- comes back if another run has come already. The query knows that from the run that took the job up last, not from the
-- run id that was written last to the job, because a step of any run writes that. A run that was terminated while it
-- was queued has never taken the job up: both its times are of the statement that noted its end.
UPDATE job
SET run_wanted = true, dispatch_count = dispatch_count + 1, vain_launches = 0, offered_at = NULL, updated_at = now()
WHERE job_id = :job_id AND status = 'RUNNING' AND NOT run_wanted AND :dagster_run_id = (
    SELECT dagster_run_id FROM job_run
    WHERE job_run.job_id = job.job_id AND terminated_at IS DISTINCT FROM taken_up_at
    ORDER BY taken_up_at DESC LIMIT 1
)
RETURNING job_id;

-- name: beat!
-- Notes that somebody is at work on the job, though no item moves.
UPDATE job SET heartbeat_at = now() WHERE job_id = :job_id;

-- name: launched_jobs
-- Unfinished jobs that were launched and have not been heard of for a while. The caller asks whether there is still a
-- run behind each of them.
-- While all open items of a job wait for a retry, its run waits, too, and nobody beats. Such a job counts as silent only
-- when the first of them has been due for as long. Suspects stand apart in the index, and are asked for apart.
SELECT job_id, job_key, kind, status, dagster_run_id, run_wanted, vain_launches
FROM job
WHERE status IN ('SUBMITTED', 'RUNNING')
    AND (NOT run_wanted OR offered_at IS NOT NULL)
    AND greatest(heartbeat_at, first_offered_at, created_at) < now() - make_interval(secs => :silent_seconds)
    AND (
        pending_items + running_items > 0 OR retry_wait_items = 0
        OR least(
            (SELECT due_at FROM job_item AS item
             WHERE item.job_id = job.job_id AND item.status = 'RETRY_WAIT' AND death_count = 0 ORDER BY due_at LIMIT 1),
            (SELECT min(due_at) FROM job_item AS item
             WHERE item.job_id = job.job_id AND item.status = 'RETRY_WAIT' AND death_count > 0)
        ) >= now() - make_interval(secs => :silent_seconds) IS NOT TRUE
    )
ORDER BY job_id
LIMIT :most;
