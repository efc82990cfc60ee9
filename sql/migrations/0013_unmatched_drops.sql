-- Files at a source that no rule is for: the first thousand of them, so that people can see what they are.
CREATE TABLE unmatched_drop (
    source text NOT NULL,
    path text NOT NULL,
    size bigint NOT NULL,
    first_seen_at timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (source, path),
    CONSTRAINT unmatched_drop_sizes_are_not_negative CHECK (size >= 0)
);

-- What the last whole look could not look into: whatever lies there is not gone.
ALTER TABLE drop_source ADD COLUMN unread text[] NOT NULL DEFAULT '{}';
