-- name: add_items
-- Persists a batch of inputs. A key that is there already is left alone, so that a plan cut short can be run again.
WITH added AS (
    INSERT INTO job_item (job_id, item_key, owner, kind, input)
    SELECT job.job_id, given.item_key, job.owner, job.kind, given.input::jsonb
    FROM job, unnest(:keys::text[], :inputs::text[]) WITH ORDINALITY AS given (item_key, input, position)
    WHERE job.job_id = :job_id
    ORDER BY given.position
    ON CONFLICT (job_id, item_key) DO NOTHING
    RETURNING item_id
)
UPDATE job
SET total_items = total_items + (SELECT count(*) FROM added),
    pending_items = pending_items + (SELECT count(*) FROM added),
    heartbeat_at = now(),
    updated_at = now()
WHERE job_id = :job_id AND planned_at IS NULL AND status = ANY (:open::job_status[])
RETURNING (SELECT count(*) FROM added);

-- name: empty_job
-- A job to which items may be copied: it has none. It is not locked, because the items may come slowly, and the job
-- must hear of beats and of a pause meanwhile. Whether all is as it was is asked when it is sealed.
SELECT owner, kind FROM job
WHERE job_id = :job_id AND planned_at IS NULL AND total_items = 0 AND status = ANY (:open::job_status[]);

-- name: job_to_fill
-- A job to which items may be copied behind those that it has. Nobody else can add any before this transaction ends.
SELECT owner, kind, total_items FROM job
WHERE job_id = :job_id AND planned_at IS NULL AND status = ANY (:open::job_status[])
FOR NO KEY UPDATE;

-- name: count_copied!
-- Counts the items that were copied in this transaction.
UPDATE job
SET total_items = total_items + :added, pending_items = pending_items + :added, heartbeat_at = now(), updated_at = now()
WHERE job_id = :job_id;

-- name: copy_items!
-- Copies items in their order, which is the order in which they are worked.
COPY job_item (job_id, item_key, owner, kind, input) FROM STDIN;

-- name: seal_copied!
-- Seals a job whose items were all copied, and sets its counters to the number of items. No row is written when the job
-- is over, or somebody else has added items meanwhile.
UPDATE job
SET total_items = :added, pending_items = :added, planned_at = now(), heartbeat_at = now(), updated_at = now()
WHERE job_id = :job_id AND planned_at IS NULL AND total_items = 0 AND status = ANY (:open::job_status[]);

-- name: claim_items
-- Takes up to :most items for one worker: due retries first, then the oldest pending items.
-- A suspect (an item that a worker died holding) is claimed alone, so that a second death tells which item it was.
-- An item that is held already keeps its place in the indexes, and the query passes it by: a claim changes no column
-- that an index knows. Whether an item is held is asked in a CASE, for which the planner has no statistics: those about
-- leases are always wrong.
WITH ready AS (
    SELECT status = 'RUNNING' AS yes FROM job WHERE job_id = :job_id
),
suspect AS (
    SELECT ctid FROM job_item
    WHERE job_id = :job_id AND status = 'RETRY_WAIT' AND death_count > 0 AND due_at <= now()
        AND CASE WHEN lease_until IS NULL THEN (SELECT yes FROM ready) END
    ORDER BY death_count, due_at, item_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
),
due AS (
    SELECT ctid FROM job_item
    WHERE job_id = :job_id AND status = 'RETRY_WAIT' AND death_count = 0 AND due_at <= now()
        AND CASE WHEN lease_until IS NULL THEN (SELECT yes FROM ready) END
    ORDER BY due_at, item_id
    LIMIT CASE WHEN EXISTS (SELECT FROM suspect) THEN 0 ELSE :most::int END
    FOR UPDATE SKIP LOCKED
),
pending AS (
    SELECT ctid FROM job_item
    WHERE job_id = :job_id AND status = 'PENDING' AND CASE WHEN lease_until IS NULL THEN (SELECT yes FROM ready) END
    ORDER BY updated_at, item_id
    LIMIT CASE WHEN EXISTS (SELECT FROM suspect) THEN 0 ELSE :most::int - (SELECT count(*) FROM due) END
    FOR UPDATE SKIP LOCKED
),
new_claim AS (
    SELECT nextval('claim_claim_id_seq') AS claim_id
),
-- The rows are found by their physical place, which the locks above hold still: a join here would let the planner scan
-- the table.
claimed AS (
    UPDATE job_item AS item
    SET lease_term = item.lease_term + 1,
        attempt_count = item.attempt_count + 1,
        lease_owner = :owner,
        lease_until = now() + make_interval(secs => :lease_seconds),
        leased_at = greatest(now(), item.updated_at + interval '1 microsecond'),
        claim_id = (SELECT claim_id FROM new_claim)
    WHERE item.ctid = ANY (ARRAY(
        SELECT ctid FROM suspect UNION ALL SELECT ctid FROM due UNION ALL SELECT ctid FROM pending
    ))
    RETURNING item.item_id, item.item_key, item.lease_term, item.attempt_count, item.not_found_count,
        item.death_count, item.input, item.normalized, item.checkpoint, item.due_at
),
taken AS (
    SELECT count(*) AS items, count(due_at) AS waited FROM claimed
),
-- The rescue finds the claimed items by this row.
noted AS (
    INSERT INTO claim (claim_id, job_id, owner, item_ids, look_at)
    SELECT (SELECT claim_id FROM new_claim), :job_id, :owner, array_agg(item_id),
        now() + make_interval(secs => :lease_seconds)
    FROM claimed
    HAVING count(*) > 0
    RETURNING claim_id
),
-- Removes claims of this worker of which it holds nothing any more. Claims that a rescue is just looking at are left to
-- the rescue.
forgotten AS (
    DELETE FROM claim
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM claim WHERE claim_id = ANY (:over::bigint[]) FOR UPDATE SKIP LOCKED))
),
-- This locks the job last, so that it sees a pause or cancel that came first. No row here tells the caller to take it
-- all back.
counted AS (
    UPDATE job
    SET pending_items = pending_items - (taken.items - taken.waited),
        retry_wait_items = retry_wait_items - taken.waited,
        running_items = running_items + taken.items,
        heartbeat_at = now(),
        updated_at = now()
    FROM taken, noted
    WHERE job_id = :job_id AND status = 'RUNNING' AND taken.items > 0
    -- A worker that falls asleep before its commit must not keep the job's row from the others for long.
    RETURNING noted.claim_id, set_config('idle_in_transaction_session_timeout', '10s', true)
)
SELECT item_id, item_key, lease_term, attempt_count, not_found_count, death_count,
    input::text, normalized::text, checkpoint::text,
    (SELECT claim_id FROM counted) AS claim_id
FROM claimed;

-- name: renew_leases
-- Extends the leases of the items that are still held. Items that are not held any more are not returned. The rows are
-- looked up one by one (OFFSET 0) and written by their physical place, whatever the statistics say.
-- The query passes locked rows by and does not wait for them, because other leases are running out meanwhile. Either a
-- handler is writing data under the lease, and the next renewal is in time for it; or a rescue has the row, and the
-- next renewal will not find it.
WITH held AS (
    SELECT * FROM unnest(:item_ids::bigint[], :lease_terms::int[]) AS h (item_id, lease_term)
),
renewed AS (
    UPDATE job_item
    -- A lease must never become shorter, because the claim says when the first of its leases may run out.
    SET lease_until = greatest(lease_until, now() + make_interval(secs => :lease_seconds))
    WHERE ctid = ANY (ARRAY(
        SELECT free.place
        FROM held
        CROSS JOIN LATERAL (
            SELECT ctid AS place FROM job_item
            WHERE item_id = held.item_id AND lease_term = held.lease_term AND lease_until IS NOT NULL
            OFFSET 0
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS free
    ))
)
SELECT held.item_id
FROM held
CROSS JOIN LATERAL (
    SELECT 1 FROM job_item
    WHERE item_id = held.item_id AND lease_term = held.lease_term AND lease_until IS NOT NULL
    OFFSET 0
) AS still;

-- name: forget_claims!
-- Removes the claims of a worker that is about to leave and holds nothing any more.
DELETE FROM claim
WHERE ctid = ANY (ARRAY(SELECT ctid FROM claim WHERE claim_id = ANY (:over::bigint[]) FOR UPDATE SKIP LOCKED));

-- name: hold_item
-- Keeps a lease from being taken until the transaction ends; no row comes back when the lease is lost. A client that
-- falls asleep in the middle keeps it for no longer than the lease lasts (but at least ten seconds): the time in which
-- the server itself is at work does not count.
SELECT item_id, set_config(
    'idle_in_transaction_session_timeout',
    greatest(10000, 1000 * extract(epoch FROM lease_until - clock_timestamp()))::int::text,
    true
)
FROM job_item
WHERE item_id = :item_id AND lease_term = :lease_term AND lease_until IS NOT NULL
FOR NO KEY UPDATE;

-- name: checkpoint_item
-- Notes how far an item has come, in the transaction that writes the data for which the checkpoint stands; no row comes
-- back when the lease is lost.
-- An item that gets on is not failing, so its tries begin anew. Its lease begins anew, too: by the clock, and not from
-- the beginning of the transaction, which may have taken longer than a lease lasts.
UPDATE job_item
SET checkpoint = :checkpoint::jsonb,
    attempt_count = 1,
    not_found_count = 0,
    death_count = 0,
    lease_until = greatest(lease_until, clock_timestamp() + make_interval(secs => :lease_seconds)),
    leased_at = greatest(now(), leased_at + interval '1 microsecond')
WHERE item_id = :item_id AND lease_term = :lease_term AND lease_until IS NOT NULL
RETURNING item_id;

-- name: tries_of_item
-- How many tries an item that is held has behind it; no row comes back when the lease is lost.
SELECT attempt_count, not_found_count, death_count FROM job_item
WHERE item_id = :item_id AND lease_term = :lease_term AND lease_until IS NOT NULL;

-- name: settle_items
-- Writes the outcomes of a batch of items, and moves the job's counters once.
-- The fence is the term, together with a lease that is still set, which is what RUNNING means. Statistics of columns
-- that change this often are always wrong, so nothing is left to them: the ids are given twice, once to find the rows
-- by the key and once to join the same number of outcomes to them, and the fence stands in a CASE, for which the
-- planner has no statistics.
-- Objects come as one array of JSON, with null where there is none: in this form their quotes need no escaping.
-- A rescue takes the lease away, so it raises the term.
-- An item that is given back has not failed: it keeps its last error, and the attempt is not counted. Nor is it counted
-- for an item that was put off before anybody worked it.
WITH outcome AS (
    SELECT * FROM ROWS FROM (
        unnest(:item_ids::bigint[], :lease_terms::int[], :statuses::item_status[], :delays::float8[],
            :error_classes::text[], :errors::text[], :uncounted::boolean[]),
        json_array_elements_text(:results::json),
        json_array_elements_text(:normalized::json)
    ) AS o (item_id, lease_term, status, delay, error_class, error, uncounted, result, normalized)
),
settled AS (
    UPDATE job_item AS item
    SET status = o.status,
        lease_until = NULL,
        leased_at = NULL,
        lease_term = item.lease_term + CASE WHEN :rescue THEN 1 ELSE 0 END,
        due_at = CASE WHEN o.status = 'RETRY_WAIT' THEN now() + make_interval(secs => o.delay) END,
        not_found_count = item.not_found_count + CASE WHEN o.error_class = 'not_found' THEN 1 ELSE 0 END,
        attempt_count = item.attempt_count - CASE WHEN o.status = 'PENDING' OR o.uncounted THEN 1 ELSE 0 END,
        death_count = CASE WHEN :rescue THEN item.death_count + 1
            WHEN o.status = 'PENDING' OR o.uncounted THEN item.death_count ELSE 0 END,
        result = coalesce(o.result::jsonb, item.result),
        normalized = coalesce(o.normalized::jsonb, item.normalized),
        error_class = CASE WHEN o.status = 'PENDING' THEN item.error_class ELSE o.error_class END,
        error_message = CASE WHEN o.status = 'PENDING' THEN item.error_message ELSE o.error END,
        updated_at = greatest(now(), item.leased_at + interval '1 microsecond')
    FROM outcome AS o
    WHERE item.item_id = ANY (:item_ids::bigint[])
        AND item.item_id = o.item_id
        AND CASE WHEN item.lease_until IS NOT NULL THEN item.lease_term = o.lease_term END
    RETURNING item.item_id, item.status, item.item_key, item.error_message
),
moved AS (
    SELECT count(*) AS items,
        count(*) FILTER (WHERE status = 'PENDING') AS pending,
        count(*) FILTER (WHERE status = 'SUCCEEDED') AS succeeded,
        count(*) FILTER (WHERE status = 'NOT_FOUND') AS not_found,
        count(*) FILTER (WHERE status = 'SKIPPED') AS skipped,
        count(*) FILTER (WHERE status = 'RETRY_WAIT') AS retry_wait,
        count(*) FILTER (WHERE status = 'DLQ') AS dlq,
        min(item_key || ': ' || error_message) FILTER (WHERE status = 'DLQ') AS dlq_error
    FROM settled
),
counted AS (
    UPDATE job
    SET running_items = running_items - moved.items,
        pending_items = pending_items + moved.pending,
        succeeded_items = succeeded_items + moved.succeeded,
        not_found_items = not_found_items + moved.not_found,
        skipped_items = skipped_items + moved.skipped,
        retry_wait_items = retry_wait_items + moved.retry_wait,
        dlq_items = dlq_items + moved.dlq,
        last_error = coalesce(moved.dlq_error, last_error),
        status = CASE WHEN fail_fast AND moved.dlq > 0 AND status = ANY (:failable::job_status[])
            THEN 'FAILED' ELSE status END,
        finished_at = CASE WHEN fail_fast AND moved.dlq > 0 AND status = ANY (:failable::job_status[])
            THEN now() ELSE finished_at END,
        heartbeat_at = CASE WHEN :rescue THEN heartbeat_at ELSE now() END,
        updated_at = now()
    FROM moved
    WHERE job_id = :job_id AND moved.items > 0
    -- As in claim_items, a worker that falls asleep must not keep the row of the job for long.
    RETURNING status, pending_items + running_items + retry_wait_items AS open_items,
        set_config('idle_in_transaction_session_timeout', '10s', true)
)
SELECT moved.pending + moved.retry_wait AS waiting, counted.status, counted.open_items,
    -- The ids cost time to send. The caller must know them only when some lease was lost.
    CASE WHEN moved.items < cardinality(:item_ids::bigint[]) THEN ARRAY(SELECT item_id FROM settled) END AS settled_ids
FROM moved LEFT JOIN counted ON true;

-- name: items_settled_by
-- Which of these terms ended by a settlement of their own. This tells a commit whose answer was lost from a lost lease.
SELECT held.item_id
FROM unnest(:item_ids::bigint[], :lease_terms::int[]) AS held (item_id, lease_term)
CROSS JOIN LATERAL (
    SELECT 1 FROM job_item
    WHERE item_id = held.item_id AND lease_term = held.lease_term AND lease_until IS NULL
    OFFSET 0
) AS found;

-- name: expired_leases
-- Items whose worker did not come back in time, locked for the rescue; :job_id narrows the search to one job.
SELECT item.item_id, claim.job_id, item.lease_term, claim.owner, job.kind,
    item.attempt_count, item.not_found_count, item.death_count + 1 AS death_count
FROM claim
JOIN job USING (job_id)
CROSS JOIN LATERAL unnest(claim.item_ids) AS taken (item_id)
CROSS JOIN LATERAL (
    SELECT item_id, lease_term, attempt_count, not_found_count, death_count FROM job_item
    WHERE item_id = taken.item_id AND claim_id = claim.claim_id AND lease_until < now()
    OFFSET 0
    FOR UPDATE SKIP LOCKED
) AS item
WHERE claim.look_at < now() AND (:job_id::bigint IS NULL OR claim.job_id = :job_id)
LIMIT :most;

-- name: look_at_claims!
-- Runs after a rescue: notes when the next lease of each claim runs out, and removes a claim of which nothing is held
-- any more. An old claim never gets new items, and leases only grow longer, so what the query reads is still true when
-- it writes.
WITH due AS (
    SELECT claim_id, item_ids, look_at FROM claim
    WHERE look_at < now() AND (:job_id::bigint IS NULL OR job_id = :job_id)
    FOR UPDATE SKIP LOCKED
),
looked AS (
    SELECT claim.claim_id, claim.look_at, (
        SELECT min(item.lease_until)
        FROM unnest(claim.item_ids) AS taken (item_id)
        CROSS JOIN LATERAL (
            SELECT lease_until FROM job_item
            WHERE item_id = taken.item_id AND claim_id = claim.claim_id AND lease_until IS NOT NULL
            OFFSET 0
        ) AS item
    ) AS first_end
    FROM due AS claim
),
emptied AS (
    DELETE FROM claim USING looked WHERE claim.claim_id = looked.claim_id AND looked.first_end IS NULL
)
UPDATE claim SET look_at = looked.first_end
FROM looked
WHERE claim.claim_id = looked.claim_id AND looked.first_end <> looked.look_at;

-- name: is_rescue_due
-- Whether a rescue of all jobs would find something to look at: a claim whose time has come, or held items of a job
-- without any claim.
SELECT EXISTS (SELECT FROM claim WHERE look_at < now()) OR EXISTS (
    SELECT FROM job WHERE running_items > 0 AND NOT EXISTS (SELECT FROM claim WHERE claim.job_id = job.job_id)
);

-- name: name_unnamed_leases
-- Makes claims for items that are held and belong to jobs without any claim. Such claims were lost by a server that
-- forgets what it has confirmed, or were removed by hand; without a claim, no rescue would find the items.
WITH lost AS (
    SELECT job_id FROM job
    WHERE running_items > 0 AND NOT EXISTS (SELECT FROM claim WHERE claim.job_id = job.job_id)
),
held AS (
    SELECT nextval('claim_claim_id_seq') AS claim_id, job_id, lease_owner AS owner, item_ids
    FROM (
        SELECT job_id, lease_owner, array_agg(item_id) AS item_ids FROM lost JOIN job_item USING (job_id)
        WHERE lease_until IS NOT NULL
        GROUP BY job_id, lease_owner
    ) AS found
),
named AS (
    INSERT INTO claim (claim_id, job_id, owner, item_ids, look_at)
    SELECT claim_id, job_id, owner, item_ids, now() FROM held
)
UPDATE job_item AS item SET claim_id = held.claim_id
FROM held CROSS JOIN LATERAL unnest(held.item_ids) AS taken (item_id)
WHERE item.item_id = taken.item_id AND item.lease_until IS NOT NULL
RETURNING item.item_id;

-- name: cancel_items
-- Cancels the items that wait in a cancelled job. Items that a claim or a settlement has locked are left to it: it sees
-- the cancel at its end.
WITH cancelled AS (
    UPDATE job_item AS item
    SET status = 'CANCELLED', updated_at = greatest(now(), item.updated_at + interval '1 microsecond')
    WHERE item.ctid = ANY (ARRAY(
        SELECT ctid FROM job_item
        WHERE job_id = :job_id AND status = ANY (:waiting::item_status[]) AND lease_until IS NULL
        LIMIT :most
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING item.due_at
),
moved AS (
    SELECT count(*) AS items, count(due_at) AS waited FROM cancelled
)
UPDATE job
SET pending_items = pending_items - (moved.items - moved.waited),
    retry_wait_items = retry_wait_items - moved.waited,
    cancelled_items = cancelled_items + moved.items,
    updated_at = now()
FROM moved
WHERE job_id = :job_id AND moved.items > 0
RETURNING moved.items;

-- name: skip_items
-- Leaves out chosen items that wait: a person has decided that nobody is to work them. Items that a claim or a settlement
-- has locked are left to it.
WITH skipped AS (
    UPDATE job_item AS item
    SET status = :skipped::item_status, updated_at = greatest(now(), item.updated_at + interval '1 microsecond')
    WHERE item.ctid = ANY (ARRAY(
        SELECT ctid FROM job_item
        WHERE item_id = ANY (:item_ids::bigint[]) AND job_id = :job_id AND status = ANY (:waiting::item_status[])
            AND lease_until IS NULL
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING item.due_at
),
moved AS (
    SELECT count(*) AS items, count(due_at) AS waited FROM skipped
)
UPDATE job
SET pending_items = pending_items - (moved.items - moved.waited),
    retry_wait_items = retry_wait_items - moved.waited,
    skipped_items = skipped_items + moved.items,
    updated_at = now()
FROM moved
WHERE job_id = :job_id AND moved.items > 0
RETURNING moved.items;

-- name: redrive_items
-- Puts items that were buried, or not found, back to pending, with fresh budgets unless they are to keep their attempts.
WITH redriven AS (
    UPDATE job_item AS item
    SET status = 'PENDING',
        attempt_count = CASE WHEN :keep_attempts THEN attempt_count ELSE 0 END,
        not_found_count = CASE WHEN :keep_attempts THEN not_found_count ELSE 0 END,
        death_count = 0,
        due_at = NULL,
        updated_at = greatest(now(), item.updated_at + interval '1 microsecond')
    WHERE item.ctid = ANY (ARRAY(
        SELECT ctid FROM job_item
        WHERE job_id = :job_id AND status = :status::item_status
            AND (:item_ids::bigint[] IS NULL OR item_id = ANY (:item_ids))
        ORDER BY updated_at, item_id
        LIMIT :most
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING item.item_id
)
UPDATE job
SET pending_items = pending_items + (SELECT count(*) FROM redriven),
    dlq_items = dlq_items - CASE WHEN :status = 'DLQ' THEN (SELECT count(*) FROM redriven) ELSE 0 END,
    not_found_items = not_found_items
        - CASE WHEN :status = 'NOT_FOUND' THEN (SELECT count(*) FROM redriven) ELSE 0 END,
    -- A paused job stays paused. A job that is over goes on, and its result is true no longer.
    status = CASE WHEN status = ANY (:over::job_status[]) THEN 'RUNNING' ELSE status END,
    result = CASE WHEN status = ANY (:over::job_status[]) THEN NULL ELSE result END,
    last_error = CASE WHEN status = ANY (:over::job_status[])
        AND dlq_items = CASE WHEN :status = 'DLQ' THEN (SELECT count(*) FROM redriven) ELSE 0 END
        THEN NULL ELSE last_error END,
    finished_at = CASE WHEN status = ANY (:over::job_status[]) THEN NULL ELSE finished_at END,
    run_wanted = run_wanted OR (status = ANY (:over::job_status[]) AND NOT :run_follows),
    dispatch_count = dispatch_count + CASE WHEN status = ANY (:over::job_status[]) THEN 1 ELSE 0 END,
    vain_launches = CASE WHEN status = ANY (:over::job_status[]) THEN 0 ELSE vain_launches END,
    offered_at = CASE WHEN status = ANY (:over::job_status[]) THEN NULL ELSE offered_at END,
    updated_at = now()
WHERE job_id = :job_id AND EXISTS (SELECT FROM redriven)
RETURNING (SELECT count(*) FROM redriven) AS items, status;

-- name: next_moment
-- When something can next be done for a job: when the first retry is due, or the first lease runs out.
-- Suspects stand apart in the index, so the query asks for them apart: asked for together, all waiting items would be
-- read each time.
SELECT extract(epoch FROM least(
    (SELECT due_at FROM job_item
     WHERE job_id = :job_id AND status = 'RETRY_WAIT' AND death_count = 0 AND lease_until IS NULL
     ORDER BY due_at LIMIT 1),
    (SELECT min(due_at) FROM job_item
     WHERE job_id = :job_id AND status = 'RETRY_WAIT' AND death_count > 0 AND lease_until IS NULL),
    -- Claims whose items are all settled may still be there.
    (SELECT min(look_at) FROM claim JOIN job USING (job_id) WHERE job_id = :job_id AND running_items > 0)
) - clock_timestamp())::float8 AS seconds;
