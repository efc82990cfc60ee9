-- name: look
-- How the jobs are that somebody watches: those that are named, the newest open ones of these owners, and those of their
-- jobs that ended within the last minute, for whoever comes back after a moment. All listeners of a process share this
-- one query. It looks for the last errors only where a counter says that there are some. Of the jobs that open pages of
-- the console show, it reads all that the pages show.
WITH watched AS (
    SELECT job_id FROM job WHERE job_key = ANY (:keys::text[])
    UNION
    (
        SELECT job_id FROM job
        WHERE finished_at IS NULL AND (:everyone OR owner = ANY (:owners::text[]))
        ORDER BY job_id DESC LIMIT :most
    )
    UNION
    (
        SELECT job_id FROM job
        WHERE finished_at >= now() - interval '1 minute' AND (:everyone OR owner = ANY (:owners::text[]))
        ORDER BY finished_at DESC LIMIT :most
    )
)
SELECT job_key, kind, owner, status::text AS status, total_items, pending_items, running_items, retry_wait_items,
    succeeded_items, not_found_items, skipped_items, dlq_items, cancelled_items, last_error,
    coalesce(
        import_count.read, export_progress.row_count,
        CASE WHEN starts_with(kind, 'export_') THEN (job.result ->> 'rows')::bigint END
    ) AS rows,
    import_count.rejected AS rejected,
    coalesce(rejects.errors, items.errors, '[]') AS errors,
    created_at, started_at, finished_at, now() AS looked_at,
    job_id, origin, fail_fast, planned_at, attempts, request_id, trace_parent, dagster_run_id, heartbeat_at, address, file_id,
    idempotency_key, detail.params, detail.result AS result, detail.counts, detail.holders
FROM watched
JOIN job USING (job_id)
LEFT JOIN import_count USING (job_id)
LEFT JOIN export_progress USING (job_id)
LEFT JOIN LATERAL (
    SELECT job.params, job.result,
        CASE WHEN import_count.job_id IS NOT NULL THEN ARRAY[
            import_count.read, loaded, import_count.rejected, superseded, valid, waiting, unprocessed, bytes_read, bytes_in_all
        ] END AS counts,
        (
            SELECT jsonb_agg(jsonb_build_array(holder.owner, holder.items) ORDER BY holder.owner)
            FROM (
                SELECT claim.owner, sum(cardinality(item_ids))::bigint AS items FROM claim
                WHERE claim.job_id = job.job_id
                GROUP BY claim.owner
            ) AS holder
        ) AS holders
    FROM (
        SELECT
            (
                SELECT coalesce(sum(byte_count), 0)::bigint FROM batch_step
                WHERE batch_step.job_id = import_count.job_id AND job.finished_at IS NULL AND worker <> 'persist'
            ) AS bytes_read,
            (
                SELECT coalesce(sum(size), 0)::bigint FROM import_file
                WHERE import_file.job_id = import_count.job_id AND job.finished_at IS NULL AND landed IS NOT NULL
            ) AS bytes_in_all
    ) AS bytes
) AS detail ON job_key = ANY (:shown::text[])
LEFT JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_object('line', line, 'reasons', reasons) ORDER BY line DESC) AS errors
    FROM (
        SELECT line, reasons FROM rejected_row
        WHERE rejected_row.job_id = job.job_id
        ORDER BY line DESC LIMIT :errors
    ) AS latest
) AS rejects ON import_count.rejected > 0
LEFT JOIN LATERAL (
    SELECT jsonb_agg(
        jsonb_build_object('item', item_key, 'class', error_class, 'message', left(error_message, 500), 'at', updated_at)
        ORDER BY updated_at DESC, item_id DESC
    ) AS errors
    FROM (
        -- Each status is a range of the index by itself.
        (
            SELECT item_id, item_key, error_class, error_message, updated_at FROM job_item
            WHERE job_item.job_id = job.job_id AND status = 'DLQ'
            ORDER BY updated_at DESC, item_id DESC LIMIT :errors
        )
        UNION ALL
        (
            SELECT item_id, item_key, error_class, error_message, updated_at FROM job_item
            WHERE job_item.job_id = job.job_id AND status = 'RETRY_WAIT'
            ORDER BY updated_at DESC, item_id DESC LIMIT :errors
        )
        ORDER BY updated_at DESC, item_id DESC LIMIT :errors
    ) AS latest
) AS items ON dlq_items + retry_wait_items > 0;
