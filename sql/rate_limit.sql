-- name: define_limit!
-- Sets a bucket's rate and capacity. A bucket that is there already keeps its tokens, up to the capacity.
INSERT INTO rate_limit (name, tokens_per_second, capacity, tokens)
VALUES (:name, :tokens_per_second, :capacity, :capacity)
ON CONFLICT (name) DO UPDATE
SET tokens_per_second = excluded.tokens_per_second,
    capacity = excluded.capacity,
    tokens = least(rate_limit.tokens, excluded.capacity)
WHERE (rate_limit.tokens_per_second, rate_limit.capacity) <> (excluded.tokens_per_second, excluded.capacity);

-- name: reserve_tokens
-- Takes up to :most whole tokens out of the bucket, and says how long to wait when there are none.
-- The clock is read after the row is locked, so that the time spent waiting for the lock counts as refilling.
WITH bucket AS MATERIALIZED (
    SELECT name, capacity, tokens_per_second, tokens, refilled_at, blocked_until
    FROM rate_limit WHERE name = :name FOR UPDATE
),
filled AS MATERIALIZED (
    SELECT name, tokens_per_second, moment, blocked_until,
        least(capacity, tokens + tokens_per_second * greatest(0, extract(epoch FROM moment - refilled_at)))::float8
            AS tokens
    FROM (SELECT *, clock_timestamp() AS moment FROM bucket) AS now_locked
),
grant_of AS (
    SELECT name, tokens, moment, tokens_per_second, blocked_until,
        CASE WHEN blocked_until > moment THEN 0 ELSE least(:most::int, floor(tokens))::int END AS granted
    FROM filled
)
UPDATE rate_limit
SET tokens = grant_of.tokens - grant_of.granted,
    -- While a block lasts, this is the end of the block. Otherwise it is the present moment, also when the clock of the
    -- server was set back.
    refilled_at = CASE WHEN grant_of.blocked_until > grant_of.moment THEN rate_limit.refilled_at ELSE grant_of.moment END,
    blocked_until = CASE WHEN grant_of.blocked_until > grant_of.moment THEN grant_of.blocked_until END
FROM grant_of
WHERE rate_limit.name = grant_of.name
RETURNING grant_of.granted,
    CASE
        WHEN grant_of.blocked_until > grant_of.moment
            THEN extract(epoch FROM grant_of.blocked_until - grant_of.moment)::float8
        WHEN grant_of.granted > 0 THEN 0
        ELSE (1 - grant_of.tokens) / grant_of.tokens_per_second
    END AS wait_seconds;

-- name: return_tokens!
-- Gives back tokens that were reserved and not used. While the bucket is blocked it takes none back, so that they are
-- not left over after the block.
UPDATE rate_limit SET tokens = least(capacity, tokens + :unused)
WHERE name = :name AND (blocked_until IS NULL OR blocked_until <= clock_timestamp());

-- name: block_limit!
-- Blocks a bucket, because the other side said how long to wait: nobody takes a token until then, and no token is left
-- over from before.
UPDATE rate_limit
SET blocked_until = greatest(blocked_until, clock_timestamp() + make_interval(secs => :seconds)),
    tokens = 0,
    refilled_at = greatest(blocked_until, clock_timestamp() + make_interval(secs => :seconds))
WHERE name = :name;
