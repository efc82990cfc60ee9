-- name: jobs_by_kind_and_state
-- What there is to do and what was done, from the counters the jobs keep: no item is read.
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
-- Who holds leases now. The partial index on leases keeps this as small as the work in hand.
SELECT
    lease_owner AS worker,
    count(*) FILTER (WHERE lease_until > now()) AS items,
    count(*) FILTER (WHERE lease_until <= now()) AS expired,
    extract(epoch FROM max(lease_until) - now())::float AS seconds_left
FROM job_item
WHERE status = 'RUNNING'
GROUP BY lease_owner
ORDER BY lease_owner;
