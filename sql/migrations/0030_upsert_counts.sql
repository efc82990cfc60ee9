-- What became of the records that an upsert has loaded: of those that are not counted here the rows are new.

ALTER TABLE import_count
    -- The row was there, and the record has changed it.
    ADD COLUMN updated bigint NOT NULL DEFAULT 0,
    -- The row was there, and said the same already.
    ADD COLUMN unchanged bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT import_count_of_loaded CHECK (
        least(updated, unchanged) >= 0 AND updated + unchanged <= loaded
    );
