-- name: cursor_secret
-- What signs the cursors.
SELECT secret FROM cursor_key;

-- name: page_of_job
-- Each status is a walk along its own stretch of the index; only the rows that are shown are read.
SELECT page.item_id, job.job_key, page.item_key, page.kind, page.status, page.attempt_count, page.lease_owner,
    page.lease_until, page.due_at, page.error_class, page.error_message, page.updated_at, page.input_summary
FROM (
    SELECT item.*
    FROM unnest(:statuses::item_status[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT item_id, job_id, item_key, kind, status, attempt_count, lease_owner, lease_until, due_at,
            error_class, error_message, updated_at, input_summary(input) AS input_summary
        FROM job_item
        WHERE job_id = :job_id AND status = wanted.status
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        ORDER BY updated_at, item_id
        LIMIT :size
    ) AS item
    ORDER BY updated_at, item_id
    LIMIT :size
) AS page
JOIN job USING (job_id)
ORDER BY page.updated_at, page.item_id;

-- name: page_of_owner
-- The same over all jobs of an owner.
SELECT page.item_id, job.job_key, page.item_key, page.kind, page.status, page.attempt_count, page.lease_owner,
    page.lease_until, page.due_at, page.error_class, page.error_message, page.updated_at, page.input_summary
FROM (
    SELECT item.*
    FROM unnest(:statuses::item_status[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT item_id, job_id, item_key, kind, status, attempt_count, lease_owner, lease_until, due_at,
            error_class, error_message, updated_at, input_summary(input) AS input_summary
        FROM job_item
        WHERE owner = :owner AND status = wanted.status
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        ORDER BY updated_at, item_id
        LIMIT :size
    ) AS item
    ORDER BY updated_at, item_id
    LIMIT :size
) AS page
JOIN job USING (job_id)
ORDER BY page.updated_at, page.item_id;
