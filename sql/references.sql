-- name: type_of_column
-- The type of a column, in the words by which a value is cast to it.
SELECT format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass(:table) AND attname = :column AND attnum > 0 AND NOT attisdropped;

-- name: loaded_file
-- The number under which a file is loaded, and its columns.
SELECT reference_id, columns FROM reference_file WHERE source = :source AND id_column = :id_column;

-- name: load_one_at_a_time!
-- Waits until nobody else loads this file.
SELECT pg_advisory_xact_lock(hashtextextended('reference ' || :source || ' ' || :id_column, 20));

-- name: use_file!
-- Notes that a version of a file is used. No row is changed when another version is loaded, or none.
UPDATE reference_file SET used_at = now()
WHERE source = :source AND id_column = :id_column AND version = :version;

-- name: forget_version!
-- Removes the version of a file that is loaded, with its rows.
DELETE FROM reference_file WHERE source = :source AND id_column = :id_column;

-- name: new_file
-- Makes room for a version of a file.
INSERT INTO reference_file (source, id_column, version, columns) VALUES (:source, :id_column, :version, :columns)
RETURNING reference_id;

-- name: copy_rows!
-- Copies the rows of a file.
COPY reference_row (reference_id, number, entry_id, row) FROM STDIN;

-- name: old_files
-- Counts the files that no job has used for long, for a dry run.
SELECT count(*) FROM reference_file WHERE used_at < now() - make_interval(days => :days);

-- name: forget_files!
-- Removes files that no job has used for long. They are loaded again when a recipe needs them.
DELETE FROM reference_file WHERE used_at < now() - make_interval(days => :days);
