-- name: add_measures!
-- Adds what a process has counted since it last did so. Rows are locked in one order, so that two processes never wait
-- for each other in a circle. When a newer program has other buckets, its histogram begins anew.
INSERT INTO measure AS kept (name, labels, total, buckets)
SELECT name, labels, total, buckets
FROM jsonb_to_recordset(:given::jsonb) AS given (name text, labels text[], total float8, buckets bigint[])
ORDER BY name, labels
ON CONFLICT (name, labels) DO UPDATE SET
    total = CASE WHEN cardinality(kept.buckets) = cardinality(excluded.buckets) THEN kept.total ELSE 0 END
        + excluded.total,
    buckets = CASE WHEN cardinality(kept.buckets) <> cardinality(excluded.buckets) THEN excluded.buckets
        ELSE ARRAY(
            SELECT before + more
            FROM unnest(kept.buckets, excluded.buckets) WITH ORDINALITY AS both_of (before, more, place)
            ORDER BY place
        ) END;

-- name: set_measures!
-- Replaces the values of gauges: the value that was seen last is the one that counts.
INSERT INTO measure (name, labels, total)
SELECT name, labels, total FROM jsonb_to_recordset(:given::jsonb) AS given (name text, labels text[], total float8)
ORDER BY name, labels
ON CONFLICT (name, labels) DO UPDATE SET total = excluded.total;

-- name: brief!
-- Lets the transaction wait neither long for a lock nor for the disk at all: numbers that are lost with the machine are
-- no loss.
SELECT set_config('lock_timeout', '1s', true), set_config('synchronous_commit', 'off', true);

-- name: measures
-- All that was ever measured.
SELECT name, labels, total, buckets FROM measure ORDER BY name, labels;
