-- The engine: jobs, their items, the shared rate limits, and the record of batch sizes.
-- Invariants live here; the code may rely on them.

CREATE TYPE job_status AS ENUM (
    'SUBMITTED', 'RUNNING', 'PAUSED', 'COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED', 'CANCELLED'
);

CREATE TYPE item_status AS ENUM (
    'PENDING', 'RUNNING', 'SUCCEEDED', 'NOT_FOUND', 'SKIPPED', 'RETRY_WAIT', 'DLQ', 'CANCELLED'
);

-- One number for all days: a counter per day would make submissions queue for its row.
CREATE SEQUENCE job_number;

CREATE FUNCTION new_job_key(number bigint DEFAULT nextval('job_number')) RETURNS text
LANGUAGE sql VOLATILE
RETURN 'J' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD') || '_'
    || lpad(number::text, greatest(6, length(number::text)), '0');

CREATE TABLE job (
    job_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_key text NOT NULL DEFAULT new_job_key(),
    kind text NOT NULL,
    owner text NOT NULL,
    origin text NOT NULL,
    params jsonb NOT NULL DEFAULT '{}',
    idempotency_key text,
    request_hash bytea NOT NULL,
    status job_status NOT NULL DEFAULT 'SUBMITTED',
    fail_fast boolean NOT NULL DEFAULT false,
    -- All items are known. Until then a job without open items is not finished.
    planned_at timestamptz,
    total_items integer NOT NULL DEFAULT 0,
    pending_items integer NOT NULL DEFAULT 0,
    running_items integer NOT NULL DEFAULT 0,
    retry_wait_items integer NOT NULL DEFAULT 0,
    succeeded_items integer NOT NULL DEFAULT 0,
    not_found_items integer NOT NULL DEFAULT 0,
    skipped_items integer NOT NULL DEFAULT 0,
    dlq_items integer NOT NULL DEFAULT 0,
    cancelled_items integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    result jsonb,
    request_id text,
    trace_parent text,
    dagster_run_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    heartbeat_at timestamptz,
    finished_at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT job_key_is_unique UNIQUE (job_key),
    CONSTRAINT job_params_is_object CHECK (jsonb_typeof(params) = 'object'),
    CONSTRAINT job_result_is_object CHECK (jsonb_typeof(result) = 'object'),
    CONSTRAINT job_origin_is_known CHECK (origin IN ('api', 'sensor', 'ui', 'cli')),
    CONSTRAINT job_finished_has_its_time CHECK (
        (status IN ('COMPLETED', 'COMPLETED_WITH_ERRORS', 'FAILED', 'CANCELLED')) = (finished_at IS NOT NULL)
    ),
    CONSTRAINT job_running_was_started CHECK (status <> 'RUNNING' OR started_at IS NOT NULL),
    CONSTRAINT job_completed_has_nothing_open CHECK (
        status NOT IN ('COMPLETED', 'COMPLETED_WITH_ERRORS')
        OR (planned_at IS NOT NULL AND pending_items + running_items + retry_wait_items = 0)
    ),
    CONSTRAINT job_counters_are_not_negative CHECK (
        least(pending_items, running_items, retry_wait_items, succeeded_items, not_found_items,
              skipped_items, dlq_items, cancelled_items) >= 0
    ),
    CONSTRAINT job_counters_add_up CHECK (
        total_items = pending_items + running_items + retry_wait_items + succeeded_items
            + not_found_items + skipped_items + dlq_items + cancelled_items
    )
) WITH (fillfactor = 50); -- the counters move often: room for heap-only updates

-- A key names one request of its owner, for ever.
CREATE UNIQUE INDEX job_idempotency ON job (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- The relay, the finalizer and the lists look for jobs that are not over.
CREATE INDEX job_unfinished ON job (status, created_at) WHERE finished_at IS NULL;
CREATE INDEX job_of_owner ON job (owner, created_at);
-- Retention walks the finished ones, oldest first.
CREATE INDEX job_finished ON job (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE job_item (
    -- Versions of one item are gone before they fill a page: looking for equal keys to merge is lost time.
    item_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY WITH (deduplicate_items = off),
    job_id bigint NOT NULL REFERENCES job ON DELETE CASCADE,
    item_key text NOT NULL,
    owner text NOT NULL,
    kind text NOT NULL,
    status item_status NOT NULL DEFAULT 'PENDING',
    attempt_count integer NOT NULL DEFAULT 0,
    not_found_count integer NOT NULL DEFAULT 0,
    -- Workers that died holding the item since it last got on.
    death_count integer NOT NULL DEFAULT 0,
    -- The fencing token: raised by every claim and every rescue, named by every later write.
    lease_term integer NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until timestamptz,
    due_at timestamptz,
    error_class text,
    error_message text,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Never goes back for a row, so a reader paging by it cannot lose one.
    updated_at timestamptz NOT NULL DEFAULT now(),
    input jsonb NOT NULL DEFAULT '{}',
    normalized jsonb,
    result jsonb,
    checkpoint jsonb,

    CONSTRAINT job_item_key_is_unique UNIQUE (job_id, item_key) WITH (deduplicate_items = off),
    CONSTRAINT job_item_input_is_object CHECK (jsonb_typeof(input) = 'object'),
    CONSTRAINT job_item_running_is_leased CHECK ((status = 'RUNNING') = (lease_until IS NOT NULL)),
    CONSTRAINT job_item_running_has_owner CHECK (status <> 'RUNNING' OR lease_owner IS NOT NULL),
    -- A claimed retry keeps its due_at, so that the claim can tell where each item came from.
    CONSTRAINT job_item_waiting_is_due CHECK (status <> 'RETRY_WAIT' OR due_at IS NOT NULL),
    CONSTRAINT job_item_pending_is_not_due CHECK (status <> 'PENDING' OR due_at IS NULL),
    CONSTRAINT job_item_buried_has_reason CHECK (status <> 'DLQ' OR error_message IS NOT NULL),
    CONSTRAINT job_item_counts_are_not_negative CHECK (
        least(attempt_count, not_found_count, death_count, lease_term) >= 0
    )
) WITH (
    -- Every item is rewritten about twice: clean up behind the work, not a fifth of the table later.
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 1
);

-- Every item is RUNNING for a while, and each index costs the claim a write: what is RUNNING stands in an index of its own
-- and in none of the large ones. Conditions on another status must say so in words that the planner can read.
-- Claims (the oldest pending first) and pages of one job.
CREATE INDEX job_item_by_job ON job_item (job_id, status, updated_at, item_id) WHERE status <> 'RUNNING';
-- Pages over all jobs of an owner.
CREATE INDEX job_item_by_owner ON job_item (owner, status, updated_at, item_id) WHERE status <> 'RUNNING';
-- Claims of retries that are due. Suspects (death_count > 0) are claimed alone, so they stand apart.
CREATE INDEX job_item_due ON job_item (job_id, death_count, due_at) WHERE status = 'RETRY_WAIT';
-- What workers hold, for rescue and pages. Not by lease_until: so a renewal changes no index.
CREATE INDEX job_item_running ON job_item (job_id, updated_at, item_id) WHERE status = 'RUNNING';

-- A token bucket for everyone who calls one limited server.
CREATE TABLE rate_limit (
    name text PRIMARY KEY,
    tokens_per_second double precision NOT NULL,
    capacity double precision NOT NULL,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL DEFAULT now(),
    blocked_until timestamptz,

    CONSTRAINT rate_limit_is_positive CHECK (tokens_per_second > 0 AND capacity >= 1),
    CONSTRAINT rate_limit_is_bounded CHECK (tokens >= 0 AND tokens <= capacity)
) WITH (fillfactor = 10);

-- How the adaptive batch sizes went, for people to look at.
CREATE TABLE batch_step (
    job_id bigint NOT NULL REFERENCES job ON DELETE CASCADE,
    worker text NOT NULL,
    step integer NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    row_count integer NOT NULL,
    byte_count bigint NOT NULL,
    seconds double precision NOT NULL,
    next_rows integer NOT NULL,
    reason text NOT NULL,

    PRIMARY KEY (job_id, worker, step)
);

-- Signs the cursors of pages; made once, shared by all processes.
CREATE TABLE cursor_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret bytea NOT NULL
);

INSERT INTO cursor_key (secret)
VALUES (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

-- A glance at an input for lists: its first plain values, never the whole of it.
CREATE FUNCTION input_summary(input jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    SELECT string_agg(key || '=' || left(value #>> '{}', 60), ' ')
    FROM (
        SELECT key, value FROM jsonb_each(input)
        WHERE jsonb_typeof(value) NOT IN ('object', 'array')
        LIMIT 4
    ) AS plain
);
