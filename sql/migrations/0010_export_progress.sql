-- How far an export is that is being written, or was given up and is still to be cleaned up after.

CREATE TABLE export_progress (
    job_id bigint PRIMARY KEY REFERENCES job ON DELETE CASCADE,
    row_count bigint NOT NULL,
    byte_count bigint NOT NULL,
    -- The planner's estimate.
    expected_rows bigint NOT NULL,
    -- What is told of the file, once it is whole and about to be published: by this the next try knows it again.
    written jsonb,

    CONSTRAINT export_progress_is_not_negative CHECK (least(row_count, byte_count, expected_rows) >= 0)
) WITH (fillfactor = 10);
