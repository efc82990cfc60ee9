-- name: jobs_to_prune
-- The next page of jobs that were over before the cutoff and still have their items, the oldest first.
SELECT job_id, finished_at FROM job
WHERE finished_at < now() - make_interval(days => :days) AND items_pruned_at IS NULL
    AND (finished_at, job_id) > (:after_time::timestamptz, :after_id::bigint)
ORDER BY finished_at, job_id
LIMIT :most;

-- name: count_prunable_items
-- How many items the retention would remove, for a dry run.
SELECT count(*) FROM job JOIN job_item USING (job_id)
WHERE job.finished_at < now() - make_interval(days => :days) AND job.items_pruned_at IS NULL;

-- name: items_of_prunable_jobs^
-- How many items these jobs had, by their counters: a sum over few rows, where counting items would read them all.
SELECT coalesce(sum(total_items), 0) FROM job
WHERE finished_at < now() - make_interval(days => :days) AND items_pruned_at IS NULL;

-- name: prune_items!
-- Removes a bounded number of a finished job's items. The job's counters stay, because they are its history. The job's
-- row is locked, so that a redrive comes either before or after; items that a redrive is just taking back to work are
-- passed by.
WITH ended AS (
    SELECT job_id FROM job
    WHERE job_id = :job_id AND finished_at < now() - make_interval(days => :days)
    FOR NO KEY UPDATE
),
piece AS (
    SELECT ctid FROM job_item
    WHERE job_id = (SELECT job_id FROM ended)
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
DELETE FROM job_item WHERE ctid = ANY (ARRAY(SELECT ctid FROM piece));

-- name: prune_batch_steps!
-- Removes a bounded number of the batch steps of a finished job that has no items any more.
DELETE FROM batch_step
WHERE ctid = ANY (ARRAY(SELECT ctid FROM batch_step WHERE job_id = :job_id LIMIT :most))
    AND EXISTS (SELECT FROM job WHERE job_id = :job_id AND finished_at < now() - make_interval(days => :days))
    AND NOT EXISTS (SELECT FROM job_item WHERE job_id = :job_id);

-- name: mark_pruned!
-- Notes that nothing of the job is left to remove. A job that was taken up again in the meantime is left alone.
UPDATE job SET items_pruned_at = now()
WHERE job_id = :job_id AND finished_at < now() - make_interval(days => :days)
    AND NOT EXISTS (SELECT FROM job_item WHERE job_id = :job_id);

-- name: count_prunable_jobs
-- How many jobs the retention would remove, for a dry run.
SELECT count(*) FROM job WHERE finished_at < now() - make_interval(days => :days);

-- name: prune_jobs
-- Removes a bounded number of old jobs whose items are gone already.
DELETE FROM job
WHERE job_id = ANY (ARRAY(
    SELECT job_id FROM job
    WHERE finished_at < now() - make_interval(days => :days) AND items_pruned_at IS NOT NULL
    ORDER BY finished_at LIMIT :most
))
RETURNING job_key;

-- name: finished_of
-- Which of these jobs are over, or gone: their partition keys may go.
SELECT given.job_key FROM unnest(:job_keys::text[]) AS given (job_key)
LEFT JOIN job USING (job_key)
WHERE job.job_key IS NULL OR job.finished_at IS NOT NULL;
