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
            AND updated_at < :until::timestamptz
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
            AND leased_at < :until::timestamptz
        OFFSET 0
    ) AS held
    WHERE claim.job_id = :job_id AND 'RUNNING' = ANY (:statuses::item_status[])
    ORDER BY updated_at, item_id
    LIMIT :size
)
SELECT item.item_id, job.job_key, item.item_key, item.owner, item.kind, item.state AS status,
    item.attempt_count, CASE WHEN item.lease_until IS NOT NULL THEN item.lease_owner END AS lease_owner,
    item.leased_at, item.lease_until, item.due_at, item.error_class, item.error_message, place.updated_at AS updated_at,
    input_summary(item.input) AS input_summary, input_text(item.input, 'title') AS title,
    input_text(item.input, 'brand') AS brand, input_text(item.input, 'sku') AS sku
FROM place
CROSS JOIN LATERAL (SELECT *, found.state FROM job_item AS found WHERE item_id = place.item_id OFFSET 0) AS item
JOIN job USING (job_id)
ORDER BY place.updated_at, place.item_id;

-- name: page_of_items
-- A page of the items of all jobs, of one owner or of all, of one kind of job or of all. An index holds the items of an
-- owner, kind and status together, in the order of the pages. So the query first finds which owners and kinds there are,
-- by a step in the index for each of them; then the first item of each group. A page's items are all in the groups whose
-- first items come first, and those groups are no more than the page has rows. Only these are read further. What is
-- RUNNING is found by the claims, as in page_of_job.
WITH RECURSIVE step AS (
    (
        SELECT owner, kind FROM job_item
        WHERE (owner, kind) >= (coalesce(:owner::text, ''), '')
        ORDER BY owner, kind
        LIMIT 1
    )
    UNION ALL
    SELECT next.owner, next.kind
    FROM step
    CROSS JOIN LATERAL (
        SELECT owner, kind FROM job_item
        WHERE (owner, kind) > (step.owner, step.kind)
        ORDER BY owner, kind
        LIMIT 1
    ) AS next
    WHERE :owner::text IS NULL OR step.owner = :owner
),
head AS (
    SELECT step.owner, step.kind, wanted.status
    FROM step
    CROSS JOIN unnest(:statuses::item_status[]) AS wanted (status)
    CROSS JOIN LATERAL (
        SELECT updated_at, item_id FROM job_item
        WHERE owner = step.owner AND kind = step.kind AND status = wanted.status
            AND CASE WHEN lease_until IS NULL THEN true END
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
            AND updated_at < :until::timestamptz
        ORDER BY updated_at, item_id
        LIMIT 1
    ) AS first
    WHERE (:owner::text IS NULL OR step.owner = :owner) AND (:kind::text IS NULL OR step.kind = :kind)
    ORDER BY first.updated_at, first.item_id
    LIMIT :size
),
place AS (
    SELECT found.updated_at, found.item_id
    FROM head
    CROSS JOIN LATERAL (
        SELECT updated_at, item_id FROM job_item
        WHERE owner = head.owner AND kind = head.kind AND status = head.status
            AND CASE WHEN lease_until IS NULL THEN true END
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
            AND updated_at < :until::timestamptz
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
            AND (:owner::text IS NULL OR owner = :owner) AND (:kind::text IS NULL OR kind = :kind)
            AND (leased_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
            AND leased_at < :until::timestamptz
        OFFSET 0
    ) AS held
    WHERE 'RUNNING' = ANY (:statuses::item_status[])
    ORDER BY updated_at, item_id
    LIMIT :size
)
SELECT item.item_id, job.job_key, item.item_key, item.owner, item.kind, item.state AS status,
    item.attempt_count, CASE WHEN item.lease_until IS NOT NULL THEN item.lease_owner END AS lease_owner,
    item.leased_at, item.lease_until, item.due_at, item.error_class, item.error_message, place.updated_at AS updated_at,
    input_summary(item.input) AS input_summary, input_text(item.input, 'title') AS title,
    input_text(item.input, 'brand') AS brand, input_text(item.input, 'sku') AS sku
FROM place
CROSS JOIN LATERAL (SELECT *, found.state FROM job_item AS found WHERE item_id = place.item_id OFFSET 0) AS item
JOIN job USING (job_id)
ORDER BY place.updated_at, place.item_id;

-- name: page_in_order
-- A page of a job's items in the order of their keys: the order of the source, and of the grid.
SELECT item.item_id, job.job_key, item.item_key, item.owner, item.kind, item.state AS status,
    item.attempt_count, CASE WHEN item.lease_until IS NOT NULL THEN item.lease_owner END AS lease_owner,
    item.leased_at, item.lease_until, item.due_at, item.error_class, item.error_message, coalesce(item.leased_at, item.updated_at) AS updated_at,
    input_summary(item.input) AS input_summary, input_text(item.input, 'title') AS title,
    input_text(item.input, 'brand') AS brand, input_text(item.input, 'sku') AS sku
FROM (
    SELECT *, found.state FROM job_item AS found
    WHERE job_id = :job_id AND item_key > :after_key
    ORDER BY item_key
    LIMIT :size
) AS item
JOIN job USING (job_id)
ORDER BY item.item_key;

-- name: item_of_job
-- All that is known of one item, for people who want to see how it came to its state.
SELECT item.item_id, job.job_key, item.item_key, item.kind, item.owner, item.state::text AS status, item.attempt_count,
    item.not_found_count, item.death_count, item.error_class, item.error_message, item.due_at,
    CASE WHEN item.lease_until IS NOT NULL THEN item.lease_owner END AS lease_owner, item.leased_at, item.lease_until,
    item.created_at, item.updated_at, item.input, item.normalized, item.result, item.checkpoint
FROM job_item AS item
JOIN job USING (job_id)
WHERE item.item_id = :item_id AND item.job_id = :job_id;
