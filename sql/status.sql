-- name: jobs_by_kind_and_state
-- What there is to do and what was done, by the counters that the jobs keep: the query reads no items.
SELECT
    kind,
    status::text AS status,
    count(*) AS jobs,
    sum(total_items) AS items,
    sum(pending_items) AS pending,
    sum(running_items) AS running,
    sum(retry_wait_items) AS waiting,
    sum(succeeded_items) AS succeeded,
    sum(not_found_items + skipped_items + cancelled_items) AS without_result,
    sum(dlq_items) AS dlq
FROM job
GROUP BY kind, status
ORDER BY kind, job.status;

-- name: workers
-- Who holds leases now. The query starts from the claims, so its cost is as small as the work in hand.
SELECT
    claim.owner AS worker,
    count(*) FILTER (WHERE item.lease_until > now()) AS items,
    count(*) FILTER (WHERE item.lease_until <= now()) AS expired,
    extract(epoch FROM max(item.lease_until) - now())::float AS seconds_left
FROM claim
CROSS JOIN LATERAL unnest(claim.item_ids) AS taken (item_id)
CROSS JOIN LATERAL (
    SELECT lease_until FROM job_item
    WHERE item_id = taken.item_id AND claim_id = claim.claim_id AND lease_until IS NOT NULL
    OFFSET 0
) AS item
GROUP BY claim.owner
ORDER BY claim.owner;
