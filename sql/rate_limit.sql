-- name: make_limit!
-- Makes the row of a limit that was never used before. What the limit allows is said by those who use it.
INSERT INTO rate_limit (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: lock_limit
-- The state of a limit, held still until the transaction ends. The clock is read after the row is locked, so that the
-- time spent waiting for the lock has passed.
WITH locked AS MATERIALIZED (
    SELECT * FROM rate_limit WHERE name = :name FOR UPDATE
)
SELECT held_numbers, held_until, ended, last_number, last_begun, blocked_until, failures,
    extract(epoch FROM clock_timestamp())::float8 AS moment
FROM locked;

-- name: write_limit!
-- Writes the state of a limit, which this transaction has locked.
UPDATE rate_limit
SET held_numbers = :held_numbers::bigint[],
    held_until = :held_until::float8[],
    ended = :ended::float8[],
    last_number = :last_number,
    last_begun = :last_begun,
    blocked_until = :blocked_until,
    failures = :failures
WHERE name = :name;

-- name: idle_hosts
-- Counts the limits of web servers that rows have named and nobody has called for a day, for a dry run.
SELECT count(*) FROM rate_limit
WHERE starts_with(name, 'host:') AND cardinality(held_numbers) = 0
    AND coalesce(last_begun, 0) < extract(epoch FROM now() - interval '1 day');

-- name: forget_hosts!
-- Removes the limits of web servers that rows have named and nobody has called for a day. Whoever comes back makes a new
-- one.
DELETE FROM rate_limit
WHERE starts_with(name, 'host:') AND cardinality(held_numbers) = 0
    AND coalesce(last_begun, 0) < extract(epoch FROM now() - interval '1 day');
