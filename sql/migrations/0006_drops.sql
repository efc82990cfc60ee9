-- Files dropped at a source: each version of a file is taken exactly once.

CREATE TYPE drop_status AS ENUM ('WATCHED', 'TAKEN', 'DONE', 'DUPLICATE', 'FAILED', 'VANISHED');

CREATE TABLE file_drop (
    drop_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source text NOT NULL,
    path text NOT NULL,
    version text NOT NULL,
    size bigint NOT NULL,
    modified_at timestamptz,
    resource text NOT NULL,
    status drop_status NOT NULL DEFAULT 'WATCHED',
    -- How often the file was seen as it is now, and since when it has been so.
    looks integer NOT NULL DEFAULT 1,
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    unchanged_since timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    job_id bigint,
    sha256 text,
    note text,
    taken_at timestamptz,
    ended_at timestamptz,

    CONSTRAINT file_drop_version_is_taken_once UNIQUE (source, path, version),
    CONSTRAINT file_drop_taken_has_job CHECK (status NOT IN ('TAKEN', 'DONE', 'DUPLICATE') OR job_id IS NOT NULL),
    CONSTRAINT file_drop_ended_has_its_time CHECK (
        (status IN ('DONE', 'DUPLICATE', 'FAILED', 'VANISHED')) = (ended_at IS NOT NULL)
    ),
    CONSTRAINT file_drop_sizes_are_not_negative CHECK (size >= 0 AND looks >= 1)
);

-- One version at a time is watched: a file that grows is the same watch.
CREATE UNIQUE INDEX file_drop_watched ON file_drop (source, path) WHERE status = 'WATCHED';
-- What waits for the end of its job.
CREATE INDEX file_drop_taken ON file_drop (source, job_id) WHERE status = 'TAKEN';
-- Retention, and the contents a path had before.
CREATE INDEX file_drop_ended ON file_drop (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE drop_source (
    source text PRIMARY KEY,
    failures integer NOT NULL DEFAULT 0,
    retry_at timestamptz,
    last_error text,
    looked_at timestamptz
);

-- Jobs that must be over before this one may start: articles wait for the users that were dropped with them.
ALTER TABLE job ADD COLUMN waits_for bigint[] NOT NULL DEFAULT '{}';
