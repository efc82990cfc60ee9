-- name: counts_of
-- How far these imports are: their records, the bytes that were read of their files, and the bytes that there are.
SELECT job_id, read, loaded, rejected, superseded, valid, waiting, unprocessed, updated, unchanged,
    (
        SELECT coalesce(sum(byte_count), 0)::bigint FROM batch_step
        WHERE batch_step.job_id = import_count.job_id AND worker <> 'persist'
    ),
    (
        SELECT coalesce(sum(size), 0)::bigint FROM import_file
        WHERE import_file.job_id = import_count.job_id AND landed IS NOT NULL
    )
FROM import_count
WHERE job_id = ANY (:job_ids::bigint[]);

-- name: ranges_read
-- All ranges of an import, how far each was read, and whether it was read to its end.
SELECT input, checkpoint, status = 'SUCCEEDED' FROM job_item WHERE job_id = :job_id ORDER BY item_id;

-- name: rejected_lines
-- The lines of rejects within a part of the file.
SELECT line FROM rejected_row WHERE job_id = :job_id AND line BETWEEN :first AND :last;
