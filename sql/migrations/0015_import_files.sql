-- The files of an import are rows from the moment that it is submitted, and a dropped file names the row that is its own.

ALTER TABLE import_file
    -- Where the file is read from. Unlike `source`, which is shown, this has the password if the address names one.
    ADD COLUMN address text,
    -- What was asked for: the version that is meant, how large it is, in which format, and which contents are known.
    ADD COLUMN wanted_version text,
    ADD COLUMN wanted_size bigint,
    ADD COLUMN format text,
    ADD COLUMN known_sha256 text[] NOT NULL DEFAULT '{}',
    -- The version of the landed copy. Whoever reads the copy asks for this version.
    ADD COLUMN landed_version text;

INSERT INTO import_file (job_id, number, source, address, wanted_version, wanted_size, format, known_sha256)
SELECT job_id, file.number,
    -- An address that may hold a password is not shown at all.
    CASE WHEN asked.address ~* '^(ftp|ftps|ftpes|sftp|http|https)://.*[@?#]'
        THEN substring(asked.address FROM '^[^:]*://') || '…'
        ELSE asked.address END,
    asked.address, file.value ->> 'version', (file.value ->> 'size')::bigint, file.value ->> 'format',
    ARRAY(SELECT jsonb_array_elements_text(coalesce(file.value -> 'known_sha256', '[]')))
FROM job
CROSS JOIN jsonb_array_elements(job.params -> 'files') WITH ORDINALITY AS file (value, number)
CROSS JOIN LATERAL (SELECT file.value ->> 'source' AS address) AS asked
WHERE starts_with(job.kind, 'import_') AND jsonb_typeof(job.params -> 'files') = 'array'
ON CONFLICT (job_id, number) DO UPDATE SET
    address = excluded.address, wanted_version = excluded.wanted_version, wanted_size = excluded.wanted_size,
    format = excluded.format, known_sha256 = excluded.known_sha256;

UPDATE import_file SET address = source WHERE address IS NULL;
ALTER TABLE import_file ALTER COLUMN address SET NOT NULL;

-- The number of the file in its import: with the job, the key of its row in import_file.
ALTER TABLE file_drop ADD COLUMN file_number integer;

-- The files of a job were numbered in the order in which they were taken. Where some of its files were taken again since,
-- so that the order does not tell the numbers any more, the version does, if only one file of the import has it.
WITH taken AS (
    SELECT drop_id, job_id, version,
        row_number() OVER (PARTITION BY job_id ORDER BY modified_at NULLS LAST, path) AS position,
        count(*) OVER (PARTITION BY job_id) AS files
    FROM file_drop WHERE job_id IS NOT NULL
),
imported AS (
    SELECT job_id, number, wanted_version,
        count(*) OVER (PARTITION BY job_id) AS files,
        count(*) OVER (PARTITION BY job_id, wanted_version) AS of_version
    FROM import_file
)
UPDATE file_drop SET file_number = imported.number
FROM taken JOIN imported ON imported.job_id = taken.job_id AND (
    imported.of_version = 1 AND imported.wanted_version = taken.version
    OR (imported.of_version > 1 OR imported.wanted_version IS NULL)
        AND imported.files = taken.files AND imported.number = taken.position
        AND coalesce(imported.wanted_version, taken.version) = taken.version
)
WHERE file_drop.drop_id = taken.drop_id;

-- The parameters of an import say how many files it has and how large they are; the files themselves are rows now.
UPDATE job SET params = (params - 'files') || jsonb_build_object(
    'file_count', jsonb_array_length(params -> 'files'),
    'size', (
        SELECT CASE WHEN bool_and(wanted_size IS NOT NULL) THEN sum(wanted_size) END
        FROM import_file WHERE import_file.job_id = job.job_id
    )
)
WHERE starts_with(kind, 'import_') AND jsonb_typeof(params -> 'files') = 'array';
