-- Rejected records. What is about a resource's own table is composed from its declaration, in `bulk_pipelines/imports`.

-- name: rejected_rows
-- A page of a job's rejects in the order of the file: at most so many, and no more once they hold so many bytes.
-- Its speed does not depend on how deep the page is.
SELECT line, raw, raw_size, reasons
FROM (
    SELECT *, coalesce(sum(octet_length(raw)) OVER (ORDER BY line ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW), 0) AS before
    FROM (
        SELECT line, raw, raw_size, reasons
        FROM rejected_row
        WHERE job_id = :job_id AND line > :after_line
        ORDER BY line
        LIMIT :limit
    ) AS wanted
) AS counted
WHERE before < :bytes
ORDER BY line;

-- name: count_rejected_rows
SELECT count(*) FROM rejected_row WHERE job_id = :job_id;

-- name: unread_rejected_rows
-- Lines whose records were not at hand when they were rejected, and are still to be read from the file again.
SELECT line
FROM rejected_row
WHERE job_id = :job_id AND raw IS NULL AND line >= :first AND line < :border
ORDER BY line;

-- name: fill_rejected_rows!
-- The records of such lines, read again.
UPDATE rejected_row r
SET raw = decode(f.raw, 'base64')
FROM jsonb_to_recordset(:found::jsonb) AS f (line bigint, raw text)
WHERE r.job_id = :job_id AND r.line = f.line AND r.raw IS NULL;

-- name: settle_reasons!
-- The final reasons, in the place of those that were noted while the file was not known as a whole.
UPDATE rejected_row r
SET reasons = f.reasons
FROM jsonb_to_recordset(:found::jsonb) AS f (line bigint, reasons jsonb)
WHERE r.job_id = :job_id AND r.line = f.line AND r.reasons <> f.reasons;

-- name: reject_unread_rows!
-- New rejects, whose records are still to be read from the file again.
INSERT INTO rejected_row (job_id, line, reasons)
SELECT :job_id, f.line, f.reasons
FROM jsonb_to_recordset(:found::jsonb) AS f (line bigint, reasons jsonb);

-- name: remove_rejected_rows!
-- For retention: the first so many rejects of a job.
DELETE FROM rejected_row
WHERE job_id = :job_id AND line IN (
    SELECT line FROM rejected_row WHERE job_id = :job_id ORDER BY line LIMIT :limit
);
