-- name: wait_shortly
-- Sets for the rest of the transaction how long it waits for others, so that submissions that wait for another one of
-- their owner do not hold the connections that everybody needs.
SELECT set_config('lock_timeout', :milliseconds::text, true);

-- name: one_at_a_time
-- Lets one submission of an owner at a time count what the owner has, so that two never take the same room.
SELECT pg_advisory_xact_lock(hashtextextended('bulk_pipelines.quota.' || :owner, 0));

-- name: open_of_owner
-- How many unfinished jobs an owner has, and how many open items in them.
SELECT count(*), coalesce(sum(pending_items + running_items + retry_wait_items), 0)::bigint
FROM job WHERE owner = :owner AND finished_at IS NULL;

-- name: bytes_of_owner
-- How many bytes an owner has sent within a day, and in how many seconds the oldest of them no longer count.
SELECT coalesce(sum(bytes), 0)::bigint,
    coalesce(extract(epoch FROM min(hour) + interval '25 hours' - now()), 0)::float8
FROM sent_bytes WHERE owner = :owner AND hour > now() - interval '25 hours';

-- name: add_bytes!
-- Counts bytes that an owner has sent.
INSERT INTO sent_bytes (owner, hour, bytes) VALUES (:owner, date_trunc('hour', now()), :bytes)
ON CONFLICT (owner, hour) DO UPDATE SET bytes = sent_bytes.bytes + excluded.bytes;

-- name: prune_bytes!
-- Removes counts that nobody asks for any more.
DELETE FROM sent_bytes WHERE hour < now() - interval '2 days';
