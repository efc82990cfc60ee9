-- Processing: what is read of a job's source, what providers answered, and limits that the other side's count never breaks.

-- The state of a limit for all who call one server. What it allows is declared with the provider. Moments are seconds.
DROP TABLE rate_limit;
CREATE TABLE rate_limit (
    name text PRIMARY KEY,
    -- The uses under way: their numbers, and when each counts as ended though nobody said so.
    held_numbers bigint[] NOT NULL DEFAULT '{}',
    held_until double precision[] NOT NULL DEFAULT '{}',
    -- When the uses ended that still count.
    ended double precision[] NOT NULL DEFAULT '{}',
    last_number bigint NOT NULL DEFAULT 0,
    last_begun double precision,
    blocked_until double precision,
    failures integer NOT NULL DEFAULT 0,

    CONSTRAINT rate_limit_uses_have_ends CHECK (cardinality(held_numbers) = cardinality(held_until)),
    CONSTRAINT rate_limit_failures_are_not_negative CHECK (failures >= 0)
) WITH (fillfactor = 10); -- rewritten with every use: room for heap-only updates

-- The landed copy of a job's source, and what was found in it. A plan that is cut short goes on with the same bytes.
CREATE TABLE processing_source (
    job_id bigint PRIMARY KEY REFERENCES job ON DELETE CASCADE,
    source text NOT NULL,
    -- Null when the copy was removed, because all its records are items.
    landed text,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    -- Null until the copy was looked at; a query has none.
    format text,
    -- The columns of the header, or of the first record.
    columns text[] NOT NULL DEFAULT '{}'
);

-- What providers answered, "nothing found" too, so that nobody asks twice.
CREATE TABLE provider_answer (
    provider text NOT NULL,
    -- The SHA-256 of the request.
    request bytea NOT NULL,
    -- Whoever asks holds the row until then; others wait for the answer.
    asking_until timestamptz,
    answered_at timestamptz,
    answer jsonb,
    -- Whether the answer says that there is nothing.
    nothing boolean NOT NULL DEFAULT false,

    PRIMARY KEY (provider, request),
    CONSTRAINT provider_answer_has_its_time CHECK ((answer IS NULL) = (answered_at IS NULL))
) WITH (fillfactor = 85);

-- Retention walks the oldest ones.
CREATE INDEX provider_answer_by_age ON provider_answer (answered_at);
