-- name: cursor_secret
-- The secret with which cursors are signed.
SELECT secret FROM cursor_key;

-- name: page_of_job
-- A page of a job's items. For each status, the query walks along that status's own stretch of an index and passes by
-- the items that are RUNNING meanwhile. Those it finds by the claims, and they are never more than the workers hold.
WITH place AS (
    SELECT found.updated_at, found.item_id
    FROM unnest(:statuses::item_status[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT updated_at, item_id FROM job_item
        WHERE job_id = :job_id AND status = wanted.status AND CASE WHEN lease_until IS NULL THEN true END
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        ORDER BY updated_at, item_id
        LIMIT :size
    ) AS found
    UNION ALL
    SELECT held.leased_at, held.item_id
    FROM claim
    CROSS JOIN LATERAL unnest(claim.item_ids) AS taken (item_id)
    CROSS JOIN LATERAL (
        SELECT leased_at, item_id FROM job_item
        WHERE item_id = taken.item_id AND claim_id = claim.claim_id AND lease_until IS NOT NULL
            AND (leased_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        OFFSET 0
    ) AS held
    WHERE claim.job_id = :job_id AND 'RUNNING' = ANY (:statuses::item_status[])
    ORDER BY updated_at, item_id
    LIMIT :size
)
SELECT item.item_id, job.job_key, item.item_key, item.kind, item.state AS status, item.attempt_count, item.lease_owner,
    item.lease_until, item.due_at, item.error_class, item.error_message, place.updated_at,
    input_summary(item.input) AS input_summary
FROM place
CROSS JOIN LATERAL (SELECT *, found.state FROM job_item AS found WHERE item_id = place.item_id OFFSET 0) AS item
JOIN job USING (job_id)
ORDER BY place.updated_at, place.item_id;

-- name: page_of_owner
-- A page of the items of all jobs of an owner, found in the same way as in page_of_job.
WITH place AS (
    SELECT found.updated_at, found.item_id
    FROM unnest(:statuses::item_status[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT updated_at, item_id FROM job_item
        WHERE owner = :owner AND status = wanted.status AND CASE WHEN lease_until IS NULL THEN true END
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        ORDER BY updated_at, item_id
        LIMIT :size
    ) AS found
    UNION ALL
    SELECT held.leased_at, held.item_id
    FROM claim
    CROSS JOIN LATERAL unnest(claim.item_ids) AS taken (item_id)
    CROSS JOIN LATERAL (
        SELECT leased_at, item_id FROM job_item
        WHERE item_id = taken.item_id AND claim_id = claim.claim_id AND lease_until IS NOT NULL AND owner = :owner
            AND (leased_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        OFFSET 0
    ) AS held
    WHERE 'RUNNING' = ANY (:statuses::item_status[])
    ORDER BY updated_at, item_id
    LIMIT :size
)
SELECT item.item_id, job.job_key, item.item_key, item.kind, item.state AS status, item.attempt_count, item.lease_owner,
    item.lease_until, item.due_at, item.error_class, item.error_message, place.updated_at,
    input_summary(item.input) AS input_summary
FROM place
CROSS JOIN LATERAL (SELECT *, found.state FROM job_item AS found WHERE item_id = place.item_id OFFSET 0) AS item
JOIN job USING (job_id)
ORDER BY place.updated_at, place.item_id;
