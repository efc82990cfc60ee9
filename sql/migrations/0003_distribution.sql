-- Distribution: the registry of generated files, and a table of index data to distribute.

-- The newest generated file of each input: where it is, and what it must be to be used again.
CREATE TABLE export_artifact (
    index_key text NOT NULL,
    effective_date date NOT NULL,
    asof_indicator text NOT NULL,
    path text NOT NULL,
    size bigint NOT NULL,
    -- SHA-256 of the bytes, in hexadecimal.
    checksum text NOT NULL,
    -- What the storage called this content when it was written: S3's ETag.
    version text NOT NULL,
    row_count bigint NOT NULL,
    -- No reference: the file outlives its job's rows.
    source_job_key text NOT NULL,
    -- When its data was read, by the database's clock. Of two jobs at once, the later reading wins.
    generated_at timestamptz NOT NULL,

    PRIMARY KEY (index_key, effective_date, asof_indicator),
    CONSTRAINT export_artifact_has_content CHECK (size > 0 AND row_count > 0),
    CONSTRAINT export_artifact_checksum_is_sha256 CHECK (checksum ~ '^[0-9a-f]{64}$')
);

-- Retention walks the registry, oldest first.
CREATE INDEX export_artifact_generated ON export_artifact (generated_at);

-- What the default query reads: the constituents of an index on a day. `bulk distribute sample` fills it.
CREATE TABLE index_data (
    index_key text NOT NULL,
    effective_date date NOT NULL,
    asof_indicator text NOT NULL,
    constituent text NOT NULL,
    weight numeric(12, 10) NOT NULL,
    close numeric(18, 6) NOT NULL,

    PRIMARY KEY (index_key, effective_date, asof_indicator, constituent),
    CONSTRAINT index_data_weight_is_a_share CHECK (weight BETWEEN 0 AND 1)
);
