-- name: add_subscription!
-- Adds a subscription: who asks for notices, and of what.
INSERT INTO subscription (
    subscription_id, owner, all_owners, address, secret, types, error_rate, silent_seconds, private
)
VALUES (
    :subscription_id, :owner, :all_owners, :address, :secret, :types, :error_rate, :silent_seconds, :private
);

-- name: subscriptions
-- All subscriptions, those of an owner, or one of them, in the order in which they were made.
SELECT subscription_id, owner, all_owners, address, secret, types, error_rate, silent_seconds, private
FROM subscription
WHERE (:subscription_id::text IS NULL OR subscription_id = :subscription_id)
    AND (:owner::text IS NULL OR owner = :owner)
ORDER BY created_at, subscription_id;

-- name: remove_subscription
-- Removes a subscription. Notices that are under way to it are skipped.
DELETE FROM subscription WHERE subscription_id = :subscription_id AND (:owner::text IS NULL OR owner = :owner)
RETURNING owner;

-- name: one_at_a_time
-- One pass goes through the outbox at a time. Another one that finds it taken has nothing to do.
SELECT pg_try_advisory_xact_lock(hashtext('bulk_pipelines.notices'));

-- name: take_events
-- Takes the oldest events out of the outbox. What follows from them is written in the same transaction.
DELETE FROM event WHERE event_id IN (SELECT event_id FROM event ORDER BY event_id LIMIT :most)
RETURNING event_id, type, owner, subject, happened_at, data;

-- name: is_anything_due
-- Whether a pass would find events, or subscriptions to sources, which change without an event.
SELECT EXISTS (SELECT FROM event)
    OR EXISTS (SELECT FROM subscription WHERE types && ARRAY['source.down', 'source.silent']);

-- name: tell_of_sources
-- Subscriptions that are to be told of a source now: it has not answered for some time, or nothing was dropped there for
-- as long as the subscription says. Each is told once; the mark goes when the source is well again. Sources that nobody
-- looks at any more were taken out of the configuration.
WITH seen AS (
    SELECT drop_source.source, failures, last_error, looked_at,
        (SELECT max(first_seen_at) FROM file_drop WHERE file_drop.source = drop_source.source) AS last_file_at
    FROM drop_source WHERE looked_at > now() - interval '1 day'
),
state AS (
    SELECT subscription_id, source, 'source.down' AS type, failures >= :failures AS bad, failures = 0 AS well,
        last_error, last_file_at
    FROM subscription CROSS JOIN seen WHERE 'source.down' = ANY (types)
    UNION ALL
    SELECT subscription_id, source, 'source.silent',
        greatest(last_file_at, created_at) < now() - make_interval(secs => silent_seconds),
        greatest(last_file_at, created_at) >= now() - make_interval(secs => silent_seconds),
        NULL, last_file_at
    FROM subscription CROSS JOIN seen WHERE 'source.silent' = ANY (types)
),
well AS (
    DELETE FROM source_notice AS told USING state
    WHERE state.well AND told.subscription_id = state.subscription_id AND told.source = state.source
        AND told.type = state.type
),
told AS (
    INSERT INTO source_notice (subscription_id, source, type)
    SELECT subscription_id, source, type FROM state WHERE bad
    ON CONFLICT (subscription_id, source, type) DO NOTHING
    RETURNING subscription_id, source, type, told_at
)
SELECT told.subscription_id, told.source, told.type, told.told_at, state.last_error, state.last_file_at
FROM told JOIN state USING (subscription_id, source, type);

-- name: count_outcomes
-- How the notices of a job went.
SELECT count(*) FILTER (WHERE status = 'SUCCEEDED') AS delivered,
    count(*) FILTER (WHERE status = 'SKIPPED') AS skipped,
    count(*) FILTER (WHERE status = 'DLQ') AS given_up
FROM job_item WHERE job_id = :job_id;
