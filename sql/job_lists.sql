-- name: jobs
-- A page of jobs, the newest first, of one owner or of all. Jobs are walked by their number, so every page costs the same.
SELECT job_id, job_key, kind, owner, origin, params, status, fail_fast, planned_at, total_items, pending_items,
    running_items, retry_wait_items, succeeded_items, not_found_items, skipped_items, dlq_items, cancelled_items,
    attempts, last_error, result, request_id, trace_parent, dagster_run_id, created_at, started_at, heartbeat_at,
    finished_at, address, file_id, idempotency_key
FROM job
WHERE (:owner::text IS NULL OR owner = :owner)
    AND (:kinds::text[] IS NULL OR kind = ANY (:kinds)) AND status = ANY (:statuses::job_status[])
    AND (:origin::text IS NULL OR origin = :origin)
    AND (:before_id::bigint IS NULL OR job_id < :before_id)
    AND (:since::timestamptz IS NULL OR created_at >= :since)
    AND (:until::timestamptz IS NULL OR created_at < :until)
    AND (
        :text::text IS NULL
        OR position(lower(:text) IN lower(concat_ws(' ', job_key, kind, params::text, last_error))) > 0
        OR EXISTS (
            SELECT FROM import_file
            WHERE import_file.job_id = job.job_id AND position(lower(:text) IN lower(source)) > 0
        )
    )
ORDER BY job_id DESC
LIMIT :size;

-- name: runs
-- The runs that took a job up, the first one first.
SELECT dagster_run_id, taken_up_at, terminated_at FROM job_run WHERE job_id = :job_id ORDER BY taken_up_at;
