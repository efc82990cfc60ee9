-- name: jobs_of_keys
-- The jobs with these keys, as they are now, and who holds how many items of each. Claims are few.
SELECT job_id, job_key, kind, owner, origin, params, status, fail_fast, planned_at, total_items, pending_items,
    running_items, retry_wait_items, succeeded_items, not_found_items, skipped_items, dlq_items, cancelled_items,
    attempts, last_error, result, request_id, trace_parent, dagster_run_id, created_at, started_at, heartbeat_at,
    finished_at, address, file_id, idempotency_key,
    (
        SELECT jsonb_agg(jsonb_build_array(holder.owner, holder.items) ORDER BY holder.owner)
        FROM (
            SELECT claim.owner, sum(cardinality(item_ids))::bigint AS items FROM claim
            WHERE claim.job_id = job.job_id
            GROUP BY claim.owner
        ) AS holder
    ) AS holders
FROM job WHERE job_key = ANY (:job_keys::text[]);

-- name: unfinished
-- How many jobs of each owner wait, run and are paused, and the newest of them.
SELECT owner, status::text, count(*), max(job_id) FROM job WHERE finished_at IS NULL GROUP BY owner, status;

-- name: speeds
-- The speed of jobs in the time that each was at work, in twenty steps of equal length: rows of the batches in each.
SELECT job_id, least(19, floor(20 * extract(epoch FROM taken_at - first_at) / greatest(extract(epoch FROM last_at - first_at), 0.001)))::int
    AS step, sum(row_count)::bigint
FROM (
    SELECT job_id, taken_at, row_count, min(taken_at) OVER of_job AS first_at, max(taken_at) OVER of_job AS last_at
    FROM batch_step
    WHERE job_id = ANY (:job_ids::bigint[]) AND worker <> 'persist'
    WINDOW of_job AS (PARTITION BY job_id)
) AS batches
GROUP BY 1, 2;

-- name: workers
-- Who holds items of which job, how many, since when, and for how long still; of one owner's jobs or of all. The query
-- starts from the claims, so its cost is as small as the work in hand.
SELECT claim.owner AS worker, job.job_key, job.kind, job.owner, job.dagster_run_id,
    count(*) AS items, count(*) FILTER (WHERE item.lease_until <= now()) AS expired, min(item.leased_at) AS since,
    extract(epoch FROM max(item.lease_until) - now())::float8 AS seconds_left
FROM claim
JOIN job USING (job_id)
CROSS JOIN LATERAL unnest(claim.item_ids) AS taken (item_id)
CROSS JOIN LATERAL (
    SELECT lease_until, leased_at FROM job_item
    WHERE item_id = taken.item_id AND claim_id = claim.claim_id AND lease_until IS NOT NULL
    OFFSET 0
) AS item
WHERE (:owner::text IS NULL OR job.owner = :owner)
GROUP BY claim.owner, job.job_id
ORDER BY claim.owner, job.job_id;
