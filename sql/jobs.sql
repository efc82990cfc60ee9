-- name: insert_job
-- Adds a new job. No row comes back when its owner used the idempotency key before; a concurrent use of the key is
-- waited for.
INSERT INTO job (
    job_key, kind, owner, origin, priority, params, idempotency_key, request_hash, fail_fast, request_id, trace_parent,
    address, file_id
)
VALUES (
    coalesce(:job_key, new_job_key()), :kind, :owner, :origin, :priority, :params::jsonb, :idempotency_key,
    :request_hash, :fail_fast, :request_id, :trace_parent, :address, :file_id
)
ON CONFLICT (owner, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
RETURNING *;

-- name: job_of_idempotency_key
-- The job that an idempotency key of this owner stands for.
SELECT job_key, request_hash FROM job WHERE owner = :owner AND idempotency_key = :idempotency_key;

-- name: find_job
-- All that is known of one job, if it belongs to the owner who asks. Whoever may see all asks without an owner.
SELECT job_id, job_key, kind, owner, origin, params, status, fail_fast, planned_at, total_items, pending_items,
    running_items, retry_wait_items, succeeded_items, not_found_items, skipped_items, dlq_items, cancelled_items,
    attempts, last_error, result, request_id, trace_parent, dagster_run_id, created_at, started_at, heartbeat_at,
    finished_at, address, file_id, idempotency_key
FROM job WHERE job_key = :job_key AND (:owner::text IS NULL OR owner = :owner);

-- name: lock_job
-- Locks a job while its next state is decided, and returns it. If the client falls asleep, the lock does not last for
-- long; see claim_items in items.sql. No row comes back for a job of another owner.
SELECT *, set_config('idle_in_transaction_session_timeout', '10s', true)
FROM job WHERE job_key = :job_key AND (:owner::text IS NULL OR owner = :owner) FOR NO KEY UPDATE;

-- name: move_job
-- Writes a job's next state, and returns the job. The time of its end is set and taken back with the state.
UPDATE job
SET status = :status::job_status,
    finished_at = CASE WHEN :finished THEN now() END,
    started_at = CASE WHEN :status = 'RUNNING' THEN coalesce(started_at, now()) ELSE started_at END,
    last_error = coalesce(:error, last_error),
    result = coalesce(:result::jsonb, result),
    updated_at = now()
WHERE job_id = :job_id
RETURNING *;

-- name: start_job
-- Notes that a run begins to work the job, or begins again, and returns the job.
UPDATE job
SET status = 'RUNNING',
    attempts = attempts + 1,
    started_at = coalesce(started_at, now()),
    heartbeat_at = now(),
    dagster_run_id = coalesce(:dagster_run_id, dagster_run_id),
    run_wanted = false,
    offered_at = NULL,
    items_pruned_at = NULL,
    updated_at = now()
WHERE job_id = :job_id
RETURNING *;

-- name: seal_job
-- Notes that all items of the job are known, and returns the job.
UPDATE job SET planned_at = coalesce(planned_at, now()), updated_at = now() WHERE job_id = :job_id RETURNING *;

-- name: job_status
-- What a worker asks between two slices: the status of its job, and how many items are open.
SELECT status, planned_at IS NOT NULL AS planned, pending_items + running_items + retry_wait_items AS open_items
FROM job WHERE job_id = :job_id;

-- name: unfinished_jobs
-- Jobs that could be over: all their items are known and none is open.
SELECT job_key FROM job
WHERE finished_at IS NULL AND status = 'RUNNING' AND planned_at IS NOT NULL
    AND pending_items + running_items + retry_wait_items = 0
ORDER BY created_at LIMIT :most;

-- name: cancelled_jobs_with_open_items
-- Cancelled jobs in which items still wait, because a worker died before it could cancel them.
SELECT job_key FROM job
WHERE status = 'CANCELLED' AND pending_items + retry_wait_items > 0
ORDER BY job_id LIMIT :most;

-- name: add_batch_steps!
-- Adds steps to the trajectory of the adaptive batch sizes. A plan that is run again after it was cut short goes on
-- with the numbers.
INSERT INTO batch_step (job_id, worker, step, row_count, byte_count, seconds, next_rows, reason)
SELECT :job_id, :worker, last.step + given.number, given.rows, given.bytes, given.seconds, given.next_rows, given.reason
FROM unnest(:rows::int[], :bytes::bigint[], :seconds::float8[], :next_rows::int[], :reasons::text[])
    WITH ORDINALITY AS given (rows, bytes, seconds, next_rows, reason, number),
    (SELECT coalesce(max(step), 0) AS step FROM batch_step WHERE job_id = :job_id AND worker = :worker) AS last
ON CONFLICT (job_id, worker, step) DO NOTHING;

-- name: set_result!
-- Writes the result of a job after its end.
UPDATE job SET result = :result::jsonb, updated_at = now() WHERE job_id = :job_id;
