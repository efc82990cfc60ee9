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
    updated = updated + :updated,
    unchanged = unchanged + :unchanged,
    batches = batches + :batches
WHERE job_id = :job_id;

-- name: counts
-- How far an import is: how many records were read, and what became of them.
SELECT read, loaded, rejected, superseded, valid, waiting, unprocessed, updated, unchanged, batches
FROM import_count WHERE job_id = :job_id;

-- name: counts_to_check
-- The counts of an import and how many of its rejects are kept, for the checks of its asset, which know its key.
SELECT (SELECT count(*) FROM rejected_row WHERE rejected_row.job_id = job.job_id) AS kept,
    coalesce(read, 0), coalesce(loaded, 0), coalesce(rejected, 0), coalesce(superseded, 0), coalesce(valid, 0),
    coalesce(waiting, 0), coalesce(unprocessed, 0), coalesce(updated, 0), coalesce(unchanged, 0), coalesce(batches, 0)
FROM job LEFT JOIN import_count USING (job_id) WHERE job_key = :job_key;

-- name: set_unprocessed!
-- Notes how many records were never reached. They are counted when nothing is open any more.
UPDATE import_count SET unprocessed = :unprocessed WHERE job_id = :job_id;

-- name: add_file!
-- Adds a file that an import asks for, when the import is submitted.
INSERT INTO import_file (job_id, number, source, address, wanted_version, wanted_size, format, known_sha256,
    wanted_layout)
VALUES (:job_id, :number, :source, :address, :version, :size, :format, :known_sha256::text[], :wanted_layout::jsonb);

-- name: forget_members!
-- Forgets the files of archives that an earlier plan found and this one did not.
DELETE FROM import_file USING job
WHERE import_file.job_id = :job_id AND archive IS NOT NULL AND number > :last
    AND job.job_id = :job_id AND planned_at IS NULL;

-- name: note_member!
-- Adds a file of an archive, when the archive is opened.
INSERT INTO import_file (job_id, number, source, address, archive)
SELECT :job_id, :number, :source, :address, :archive FROM job WHERE job.job_id = :job_id AND planned_at IS NULL
ON CONFLICT (job_id, number) DO UPDATE SET source = excluded.source, archive = excluded.archive;

-- name: note_file!
-- Notes what the plan made of a file: where it was landed, and how it is read. Planning again writes the same. Once the
-- job's items are known nothing is noted any more: a plan that was thought dead may still be at it.
UPDATE import_file SET
    landed = :landed, landed_version = :landed_version, size = :size, sha256 = :sha256, layout = :layout::jsonb,
    base_line = :base_line, duplicate = :duplicate, note = :note
FROM job
WHERE import_file.job_id = :job_id AND number = :number AND job.job_id = :job_id AND planned_at IS NULL;

-- name: files
-- The files of an import, in the order in which they count: what was asked for, and what the plan made of it.
SELECT number, source, address, wanted_version, wanted_size, format, known_sha256,
    wanted_layout, landed, landed_version, size, sha256, layout, base_line, duplicate, note, archive
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
-- How many bytes of the landed files have been read, how many there are, and for how many seconds it has been loading.
SELECT
    (SELECT coalesce(sum(byte_count), 0)::bigint FROM batch_step WHERE job_id = :job_id AND worker <> 'persist'),
    (SELECT coalesce(sum(size), 0)::bigint FROM import_file WHERE job_id = :job_id AND landed IS NOT NULL),
    (SELECT coalesce(extract(epoch FROM clock_timestamp() - planned_at), 0)::float8 FROM job WHERE job_id = :job_id);

-- name: first_burial
-- Why the first of an import's buried ranges could not be loaded.
SELECT error_message FROM job_item WHERE job_id = :job_id AND status = 'DLQ' ORDER BY item_id LIMIT 1;
