-- Retention of the registry: files that are gone from the storage leave it.

-- How far the walk through the registry has come; no row: at the beginning.
CREATE TABLE export_artifact_walk (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    index_key text NOT NULL,
    effective_date date NOT NULL,
    asof_indicator text NOT NULL
);

-- The walk goes by the primary key, so that a generated file has one index entry to write instead of two.
DROP INDEX export_artifact_generated;
