-- name: save_progress
-- Notes how far an export is; no row comes back when the lease is lost. This is not a checkpoint of the item, because a
-- checkpoint would begin the item's tries anew.
INSERT INTO export_progress (job_id, row_count, byte_count, expected_rows, written)
SELECT job_id, :rows, :bytes, :expected_rows, :written::jsonb
FROM job_item WHERE item_id = :item_id AND lease_term = :lease_term AND lease_until IS NOT NULL
ON CONFLICT (job_id) DO UPDATE SET
    row_count = excluded.row_count, byte_count = excluded.byte_count, expected_rows = excluded.expected_rows,
    written = excluded.written
RETURNING job_id;

-- name: progress
-- How far an export is and, once its file is written whole, what describes that file.
SELECT row_count AS rows, byte_count AS bytes, expected_rows, written FROM export_progress WHERE job_id = :job_id;

-- name: progress_of_jobs
-- How far several exports are; those that are over are not among them.
SELECT job_id, row_count, byte_count, expected_rows FROM export_progress WHERE job_id = ANY (:job_ids::bigint[]);

-- name: seconds
-- How many seconds ago the work on an export began.
SELECT coalesce(extract(epoch FROM clock_timestamp() - started_at), 0)::float8 FROM job WHERE job_id = :job_id;

-- name: forget_progress!
-- Removes the progress of an export that is over and left nothing to clean up.
DELETE FROM export_progress WHERE job_id = :job_id;

-- name: ended_in_vain
-- The next page of exports that were cancelled or given up and may have left something behind.
SELECT job.job_key, job.job_id FROM export_progress JOIN job USING (job_id)
WHERE job.status IN ('CANCELLED', 'FAILED') AND job.running_items = 0 AND job.job_id > :after_id
ORDER BY job.job_id
LIMIT :most;

-- name: file_of_job
-- What became of the one file of an export.
SELECT result, error_message FROM job_item WHERE job_id = :job_id;
