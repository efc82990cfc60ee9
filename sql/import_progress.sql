-- name: begin_counting!
-- Makes the row that counts an import's records, all of them zero.
INSERT INTO import_count (job_id) VALUES (:job_id) ON CONFLICT (job_id) DO NOTHING;

-- name: count_records!
-- Adds what a transaction did to the import's counts, in that transaction. It is the last statement, so that the row is
-- locked only for the commit.
UPDATE import_count SET
    read = read + :read,
    loaded = loaded + :loaded,
    rejected = rejected + :rejected,
    superseded = superseded + :superseded,
    valid = valid + :valid,
    waiting = waiting + :waiting,
    unprocessed = unprocessed + :unprocessed,
    batches = batches + :batches
WHERE job_id = :job_id;

-- name: counts
-- How far an import is: how many records were read, and what became of them.
SELECT read, loaded, rejected, superseded, valid, waiting, unprocessed, batches
FROM import_count WHERE job_id = :job_id;

-- name: set_unprocessed!
-- Notes how many records were never reached. They are counted when nothing is open any more.
UPDATE import_count SET unprocessed = :unprocessed WHERE job_id = :job_id;

-- name: add_file!
-- Notes a file of the import as it was landed. Planning again writes the same row.
INSERT INTO import_file (job_id, number, source, landed, size, sha256, layout, base_line, duplicate, note)
VALUES (:job_id, :number, :source, :landed, :size, :sha256, :layout::jsonb, :base_line, :duplicate, :note)
ON CONFLICT (job_id, number) DO UPDATE SET
    landed = excluded.landed, size = excluded.size, sha256 = excluded.sha256, layout = excluded.layout,
    base_line = excluded.base_line, duplicate = excluded.duplicate, note = excluded.note;

-- name: files
-- The files of an import, in the order in which they count.
SELECT number, source, landed, size, sha256, layout, base_line, duplicate, note
FROM import_file WHERE job_id = :job_id ORDER BY number;

-- name: unfinished_ranges
-- Ranges that were not read to their end, and how far they were read.
SELECT input, checkpoint FROM job_item
WHERE job_id = :job_id AND status <> 'SUCCEEDED'
ORDER BY item_id;

-- name: ranges
-- All ranges of an import.
SELECT input FROM job_item WHERE job_id = :job_id ORDER BY item_id;

-- name: ended_without_result
-- The next page of imports that were cancelled, aborted or given up, and whose result has not been written yet.
SELECT job_key, job_id FROM job
WHERE finished_at IS NOT NULL AND result IS NULL AND kind = ANY (:kinds::text[])
    AND running_items = 0 AND planned_at IS NOT NULL AND job_id > :after_id
ORDER BY job_id
LIMIT :most;

-- name: batch_steps
-- The batches of records, in the order in which they were written.
SELECT row_count, seconds FROM batch_step
WHERE job_id = :job_id AND worker <> 'persist'
ORDER BY taken_at, step;

-- name: bytes
-- How many bytes of the landed files have been read, and how many there are.
SELECT
    (SELECT coalesce(sum(byte_count), 0)::bigint FROM batch_step WHERE job_id = :job_id AND worker <> 'persist'),
    (SELECT coalesce(sum(size), 0)::bigint FROM import_file WHERE job_id = :job_id AND landed IS NOT NULL);

-- name: first_burial
-- Why the first of an import's buried ranges could not be loaded.
SELECT error_message FROM job_item WHERE job_id = :job_id AND status = 'DLQ' ORDER BY item_id LIMIT 1;
