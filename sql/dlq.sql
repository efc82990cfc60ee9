-- name: dead_letters
-- Dead letters, the oldest first, narrowed by whichever filters are given. The run named is that of the worker that
-- held the item last.
SELECT item.item_id, job.job_key, item.kind, item.owner, item.item_key, item.attempt_count, item.death_count,
    item.error_class, item.error_message, item.lease_owner AS worker,
    coalesce(substring(item.lease_owner FROM '^[0-9a-f-]{36}(?=:)'), job.dagster_run_id) AS dagster_run_id,
    item.updated_at AS buried_at,
    input_summary(item.input) AS input_summary
FROM job_item AS item
JOIN job USING (job_id)
WHERE item.status = 'DLQ'
    AND (item.updated_at, item.item_id) > (:after_time::timestamptz, :after_id::bigint)
    AND (:job_key::text IS NULL OR job.job_key = :job_key)
    AND (:kind::text IS NULL OR item.kind = :kind)
    AND (:error_class::text IS NULL OR item.error_class = :error_class)
    AND (:owner::text IS NULL OR item.owner = :owner)
    AND (:older_than::float8 IS NULL OR item.updated_at < now() - make_interval(secs => :older_than))
ORDER BY item.updated_at, item.item_id
LIMIT :size;

-- name: count_dead_letters
-- How many dead letters the same filters leave.
SELECT count(*)
FROM job_item AS item
JOIN job USING (job_id)
WHERE item.status = 'DLQ'
    AND (:job_key::text IS NULL OR job.job_key = :job_key)
    AND (:kind::text IS NULL OR item.kind = :kind)
    AND (:error_class::text IS NULL OR item.error_class = :error_class)
    AND (:owner::text IS NULL OR item.owner = :owner)
    AND (:older_than::float8 IS NULL OR item.updated_at < now() - make_interval(secs => :older_than));

-- name: last_burial
-- When the newest dead letter was buried: the list of dead letters ends there now.
SELECT updated_at FROM job_item WHERE status = 'DLQ' ORDER BY updated_at DESC, item_id DESC LIMIT 1;

-- name: dead_letter
-- All that is known of one dead letter.
SELECT item.item_id, job.job_key, job.status AS job_status, item.kind, item.owner, item.item_key, item.attempt_count,
    item.not_found_count, item.death_count, item.lease_term, item.error_class, item.error_message,
    item.lease_owner AS worker,
    coalesce(substring(item.lease_owner FROM '^[0-9a-f-]{36}(?=:)'), job.dagster_run_id) AS dagster_run_id,
    item.created_at, item.updated_at AS buried_at, item.input,
    item.checkpoint
FROM job_item AS item
JOIN job USING (job_id)
WHERE item.item_id = :item_id AND item.status = 'DLQ';

-- name: discard_items
-- Discards dead letters that nobody will try again: they count as cancelled from now on.
WITH discarded AS (
    UPDATE job_item AS item
    SET status = :discarded::item_status, updated_at = greatest(now(), item.updated_at + interval '1 microsecond')
    WHERE item.item_id = ANY (:item_ids::bigint[]) AND item.job_id = :job_id AND item.status = 'DLQ'
    RETURNING item.item_id
)
UPDATE job
SET dlq_items = dlq_items - (SELECT count(*) FROM discarded),
    cancelled_items = cancelled_items + (SELECT count(*) FROM discarded),
    updated_at = now()
WHERE job_id = :job_id AND EXISTS (SELECT FROM discarded)
RETURNING (SELECT count(*) FROM discarded) AS items;
