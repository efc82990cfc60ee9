-- name: unfinished_jobs
-- Jobs that are not over, and what waits in them, by the counters that they keep.
SELECT kind, status::text AS state, count(*) AS jobs, sum(pending_items) AS pending, sum(running_items) AS running,
    sum(retry_wait_items) AS retry_wait
FROM job WHERE finished_at IS NULL
GROUP BY kind, status;

-- name: oldest_waiting
-- How long the oldest item of each kind has waited that a worker could take now, or the oldest job that has no items
-- yet. A thousand jobs are looked at, the oldest ones.
SELECT kind, extract(epoch FROM now() - min(since))::float8 AS seconds
FROM (
    SELECT job.kind, CASE WHEN job.pending_items > 0 THEN first.updated_at ELSE job.created_at END AS since
    FROM (
        SELECT job_id, kind, created_at, pending_items, planned_at, status FROM job
        WHERE finished_at IS NULL AND status IN ('SUBMITTED', 'RUNNING')
        ORDER BY created_at LIMIT 1000
    ) AS job
    LEFT JOIN LATERAL (
        SELECT updated_at FROM job_item
        WHERE job_id = job.job_id AND job_item.status = 'PENDING' AND lease_until IS NULL AND job.pending_items > 0
        ORDER BY updated_at LIMIT 1
    ) AS first ON true
    WHERE job.pending_items > 0 OR job.status = 'SUBMITTED'
) AS waiting
WHERE since IS NOT NULL
GROUP BY kind;

-- name: dead_letters
-- Items in the DLQ whose jobs are kept.
SELECT kind, sum(dlq_items) AS items FROM job WHERE dlq_items > 0 GROUP BY kind;

-- name: unended_jobs
-- How many jobs could be over and are not ended: when this stays above 0, nobody finalizes. And how many jobs want a
-- run and have none.
SELECT count(*) FILTER (WHERE status = 'RUNNING' AND planned_at IS NOT NULL
        AND pending_items + running_items + retry_wait_items = 0) AS due,
    count(*) FILTER (WHERE run_wanted AND status IN ('SUBMITTED', 'RUNNING')) AS wanted
FROM job WHERE finished_at IS NULL;

-- name: leases
-- How many workers hold leases, how many leases they hold, and how many were left behind by workers that are gone.
SELECT count(DISTINCT claim.owner) FILTER (WHERE item.lease_until > now()) AS workers,
    count(*) FILTER (WHERE item.lease_until > now()) AS held,
    count(*) FILTER (WHERE item.lease_until <= now()) AS expired
FROM claim
CROSS JOIN LATERAL unnest(claim.item_ids) AS taken (item_id)
CROSS JOIN LATERAL (
    SELECT lease_until FROM job_item
    WHERE item_id = taken.item_id AND claim_id = claim.claim_id AND lease_until IS NOT NULL
    OFFSET 0
) AS item;

-- name: limits
-- What providers let through now. Moments are seconds of the database's clock.
SELECT substr(name, 10) AS provider, cardinality(held_numbers) AS in_flight, failures,
    greatest(coalesce(blocked_until, 0) - extract(epoch FROM clock_timestamp()), 0)::float8 AS blocked_seconds
FROM rate_limit WHERE starts_with(name, 'provider:');

-- name: sources
-- The sources of drops: whether they answer, and when a file came last.
SELECT source, failures, extract(epoch FROM looked_at)::float8 AS looked_at,
    (SELECT extract(epoch FROM max(first_seen_at))::float8 FROM file_drop WHERE file_drop.source = drop_source.source)
        AS last_file_at
FROM drop_source;

-- name: outbox
-- Events of which nobody was told yet. Ends of jobs among them are not in the counters yet.
SELECT count(*) AS events, coalesce(extract(epoch FROM now() - min(happened_at)), 0)::float8 AS oldest_seconds FROM event;

-- name: ends_in_outbox
-- The ends of jobs that are not in the counters yet.
SELECT data FROM event WHERE type = 'job.ended' ORDER BY event_id LIMIT 10000;

-- name: server
-- What PostgreSQL has counted for this database since its statistics were last reset, and how many connections and slow
-- queries there are now.
SELECT xact_commit AS committed, xact_rollback AS rolled_back, deadlocks,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS connections,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
        AND query_start < now() - interval '5 s' AND query NOT ILIKE 'copy%') AS slow
FROM pg_stat_database WHERE datname = current_database();

-- name: has_dagster
-- Whether Dagster keeps its runs in this database, and this role may read them.
SELECT count(*) = 3 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'dagster' AND relname IN ('runs', 'job_ticks', 'daemon_heartbeats')
    AND has_schema_privilege(pg_namespace.oid, 'USAGE') AND has_table_privilege(pg_class.oid, 'SELECT');

-- name: dagster_runs
-- Dagster's runs that are not over, and the age of the oldest one in each state.
SELECT status, count(run_id) AS runs,
    coalesce(extract(epoch FROM now() - min(create_timestamp AT TIME ZONE 'UTC')), 0)::float8 AS oldest
FROM unnest(ARRAY['QUEUED', 'NOT_STARTED', 'STARTING', 'STARTED', 'CANCELING']) AS known (status)
LEFT JOIN dagster.runs USING (status)
GROUP BY status;

-- name: dagster_ended_runs
-- Dagster's runs of the last hour: how many ended how, and how long they waited in the queue.
SELECT status, count(*) AS runs,
    avg(start_time - extract(epoch FROM create_timestamp AT TIME ZONE 'UTC'))::float8 AS queued
FROM dagster.runs
WHERE end_time > extract(epoch FROM now() - interval '1 hour') AND status IN ('SUCCESS', 'FAILURE', 'CANCELED')
GROUP BY status;

-- name: dagster_ticks
-- The ticks of the last ten minutes, which are the youngest rows: how many failed, and how long the slowest took.
SELECT body ->> 'instigator_name' AS name, status, count(*) AS ticks,
    max((body ->> 'end_timestamp')::float8 - (body ->> 'timestamp')::float8) AS slowest
FROM (
    SELECT status, tick_body::jsonb AS body
    FROM (SELECT * FROM dagster.job_ticks ORDER BY id DESC LIMIT 2000) AS last
    WHERE timestamp > now() AT TIME ZONE 'UTC' - interval '10 minutes'
) AS recent
GROUP BY 1, 2;

-- name: dagster_heartbeats
-- When each daemon of Dagster was last alive.
SELECT daemon_type, extract(epoch FROM now() - timestamp AT TIME ZONE 'UTC')::float8 AS age FROM dagster.daemon_heartbeats;
