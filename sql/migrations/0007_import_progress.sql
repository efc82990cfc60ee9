-- How far an import is, and the files it is made of.

CREATE TABLE import_count (
    job_id bigint PRIMARY KEY REFERENCES job ON DELETE CASCADE,
    -- What became of the records so far: the first is the sum of all others.
    read bigint NOT NULL DEFAULT 0,
    loaded bigint NOT NULL DEFAULT 0,
    rejected bigint NOT NULL DEFAULT 0,
    superseded bigint NOT NULL DEFAULT 0,
    valid bigint NOT NULL DEFAULT 0,
    waiting bigint NOT NULL DEFAULT 0,
    -- In the file, and never reached: the import was aborted or cancelled, or a range was given up.
    unprocessed bigint NOT NULL DEFAULT 0,
    batches integer NOT NULL DEFAULT 0,

    CONSTRAINT import_count_adds_up CHECK (read = loaded + rejected + superseded + valid + waiting),
    CONSTRAINT import_count_is_not_negative CHECK (
        least(loaded, rejected, superseded, valid, waiting, unprocessed, batches) >= 0
    )
) WITH (fillfactor = 10);

CREATE TABLE import_file (
    job_id bigint NOT NULL REFERENCES job ON DELETE CASCADE,
    number integer NOT NULL,
    source text NOT NULL,
    -- The copy that the work reads; null when there is nothing to read.
    landed text,
    size bigint,
    sha256 text,
    layout jsonb,
    -- Lines of the job's files never collide: each file's begin behind this one.
    base_line bigint NOT NULL DEFAULT 0,
    -- Its content was imported before from the same place.
    duplicate boolean NOT NULL DEFAULT false,
    note text,

    PRIMARY KEY (job_id, number)
);
