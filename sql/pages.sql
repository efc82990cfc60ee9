-- name: cursor_secret
-- What signs the cursors.
SELECT secret FROM cursor_key;

-- name: page_of_job
-- Each status is a walk along its own stretch of an index (what is RUNNING has an index of its own); only the rows that are
-- shown are read.
WITH place AS (
    SELECT found.updated_at, found.item_id
    FROM unnest(:statuses::item_status[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT updated_at, item_id FROM job_item
        WHERE job_id = :job_id AND status = wanted.status AND status <> 'RUNNING'
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        ORDER BY updated_at, item_id
        LIMIT :size
    ) AS found
    UNION ALL
    (
        SELECT updated_at, item_id FROM job_item
        WHERE job_id = :job_id AND status = 'RUNNING' AND 'RUNNING' = ANY (:statuses::item_status[])
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        ORDER BY updated_at, item_id
        LIMIT :size
    )
    ORDER BY updated_at, item_id
    LIMIT :size
)
SELECT item.item_id, job.job_key, item.item_key, item.kind, item.status, item.attempt_count, item.lease_owner,
    item.lease_until, item.due_at, item.error_class, item.error_message, item.updated_at,
    input_summary(item.input) AS input_summary
FROM place
CROSS JOIN LATERAL (SELECT * FROM job_item WHERE item_id = place.item_id OFFSET 0) AS item
JOIN job USING (job_id)
ORDER BY item.updated_at, item.item_id;

-- name: page_of_owner
-- The same over all jobs of an owner. What is RUNNING is looked through: it is never more than the workers hold.
WITH place AS (
    SELECT found.updated_at, found.item_id
    FROM unnest(:statuses::item_status[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT updated_at, item_id FROM job_item
        WHERE owner = :owner AND status = wanted.status AND status <> 'RUNNING'
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        ORDER BY updated_at, item_id
        LIMIT :size
    ) AS found
    UNION ALL
    (
        SELECT updated_at, item_id FROM job_item
        WHERE owner = :owner AND status = 'RUNNING' AND 'RUNNING' = ANY (:statuses::item_status[])
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        ORDER BY updated_at, item_id
        LIMIT :size
    )
    ORDER BY updated_at, item_id
    LIMIT :size
)
SELECT item.item_id, job.job_key, item.item_key, item.kind, item.status, item.attempt_count, item.lease_owner,
    item.lease_until, item.due_at, item.error_class, item.error_message, item.updated_at,
    input_summary(item.input) AS input_summary
FROM place
CROSS JOIN LATERAL (SELECT * FROM job_item WHERE item_id = place.item_id OFFSET 0) AS item
JOIN job USING (job_id)
ORDER BY item.updated_at, item.item_id;
