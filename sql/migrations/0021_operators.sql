-- What operators see: what processes have measured, and what has happened.

-- Counters and histograms outlive the processes that counted. Each process adds what it has, every few seconds.
CREATE TABLE measure (
    name text NOT NULL,
    -- The values of the metric's labels, in the order in which the code declares them.
    labels text[] NOT NULL,
    -- The value of a counter or gauge; of a histogram, the sum of what was observed.
    total double precision NOT NULL DEFAULT 0,
    -- How many observations fell into each bucket of a histogram, the last one without an upper bound.
    buckets bigint[] NOT NULL DEFAULT '{}',

    PRIMARY KEY (name, labels)
) WITH (fillfactor = 30); -- rewritten all the time: room for heap-only updates

-- The outbox: what has happened and nobody was told of yet. It is written in the transaction in which it happens.
CREATE TABLE event (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type text NOT NULL,
    -- Whom it concerns; null concerns the operators.
    owner text,
    -- The key of a job, or the name of a source.
    subject text NOT NULL,
    happened_at timestamptz NOT NULL DEFAULT now(),
    data jsonb NOT NULL DEFAULT '{}',

    CONSTRAINT event_data_is_object CHECK (jsonb_typeof(data) = 'object')
);

-- A job ends in several ways, one of them within a statement that settles items. So the database itself notes the end.
CREATE FUNCTION note_job_end() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO event (type, owner, subject, data) VALUES (
        'job.ended', NEW.owner, NEW.job_key,
        jsonb_build_object(
            'kind', NEW.kind,
            'state', NEW.status,
            'origin', NEW.origin,
            'created_at', NEW.created_at,
            'started_at', NEW.started_at,
            'planned_at', NEW.planned_at,
            'finished_at', NEW.finished_at,
            'items', NEW.total_items,
            'succeeded', NEW.succeeded_items,
            'not_found', NEW.not_found_items,
            'skipped', NEW.skipped_items,
            'dead_letters', NEW.dlq_items,
            'cancelled', NEW.cancelled_items,
            'error_rate', NEW.result -> 'error_rate',
            'error', CASE WHEN NEW.status = 'FAILED' THEN NEW.last_error END,
            'request_id', NEW.request_id,
            'trace_parent', NEW.trace_parent
        )
    );
    RETURN NULL;
END
$$;

CREATE TRIGGER job_end_is_noted AFTER UPDATE OF status ON job
FOR EACH ROW WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL)
EXECUTE FUNCTION note_job_end();

-- The numbers of dead letters are asked for with every scrape.
CREATE INDEX job_with_dead_letters ON job (kind) WHERE dlq_items > 0;

-- Who is told of what.
CREATE TABLE subscription (
    subscription_id text PRIMARY KEY,
    owner text NOT NULL,
    -- The events of all owners, and not only of this one.
    all_owners boolean NOT NULL DEFAULT false,
    address text NOT NULL,
    -- What the receiver knows us by. It has to be here whole, because each notice is signed with it.
    secret text NOT NULL,
    types text[] NOT NULL,
    error_rate double precision NOT NULL,
    silent_seconds double precision NOT NULL,
    -- The receiver may lie in a private network.
    private boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT subscription_owner_is_not_blank CHECK (btrim(owner) <> ''),
    CONSTRAINT subscription_has_types CHECK (cardinality(types) > 0)
);

-- What a subscription was told of a source, so that one outage is told once.
CREATE TABLE source_notice (
    subscription_id text NOT NULL REFERENCES subscription ON DELETE CASCADE,
    source text NOT NULL,
    type text NOT NULL,
    told_at timestamptz NOT NULL DEFAULT now(),

    PRIMARY KEY (subscription_id, source, type)
);
