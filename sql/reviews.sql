-- name: decisions
-- What was decided about rows that say these things.
SELECT row_key, verdict, entry, rejected, decided_by, decided_at FROM review_decision
WHERE recipe = :recipe AND row_key = ANY (:keys::bytea[]);

-- name: decision
-- What was decided about rows that say one thing, read when nobody else decides about them.
SELECT row_key, verdict, entry, rejected, decided_by, decided_at FROM review_decision
WHERE recipe = :recipe AND row_key = :key;

-- name: one_at_a_time!
-- Waits until nobody else decides about rows that say the same. There may be no row yet that could be locked.
SELECT pg_advisory_xact_lock(hashtextextended(:recipe || encode(:key, 'hex'), 20));

-- name: write_decision!
-- Writes a decision in the place of an earlier one. What the best candidate was is kept from the first one on: thresholds
-- are learned from what the recipe found by itself.
INSERT INTO review_decision (recipe, row_key, verdict, entry, rejected, said, best_id, best_score, lead, decided_by)
VALUES (
    :recipe, :key, :verdict, :entry::jsonb, :rejected::text[], :said::jsonb, :best_id, :best_score, :lead, :decided_by
)
ON CONFLICT (recipe, row_key) DO UPDATE
SET verdict = excluded.verdict, entry = excluded.entry, rejected = excluded.rejected,
    decided_by = excluded.decided_by, decided_at = now(),
    best_id = coalesce(review_decision.best_id, excluded.best_id),
    best_score = coalesce(review_decision.best_score, excluded.best_score),
    lead = coalesce(review_decision.lead, excluded.lead);

-- name: forget_decision!
-- Takes a decision back.
DELETE FROM review_decision WHERE recipe = :recipe AND row_key = :key;

-- name: row_to_decide
-- One row of a job with what was found of it, locked while a decision about it is written.
SELECT item.item_id, item.state::text AS state, item.input, item.result FROM job_item AS item
WHERE job_id = :job_id AND item_key = :item_key FOR NO KEY UPDATE;

-- name: rows_to_review
-- A page of the rows of a job with one outcome, in the order of the source.
SELECT item_key, input, result FROM job_item
WHERE job_id = :job_id AND status = 'SUCCEEDED' AND result ->> 'outcome' = :outcome AND item_key > :after
ORDER BY item_key
LIMIT :size;

-- name: row_to_review
-- One row of a job that was looked up. Whoever looks again at a decision finds the row, though it has left its page.
SELECT item_key, input, result FROM job_item
WHERE job_id = :job_id AND item_key = :item_key AND status IN ('SUCCEEDED', 'NOT_FOUND')
    AND jsonb_exists(result, 'evidence');

-- name: settled_rows
-- A page of the rows of a job that have a result. Decisions about them may have been made since. The page is locked, so
-- that no decision about one of its rows comes in between.
SELECT item_id, item_key, item.state::text AS state, input, result FROM job_item AS item
WHERE job_id = :job_id AND status IN ('SUCCEEDED', 'NOT_FOUND') AND lease_until IS NULL AND item_key > :after
    AND jsonb_exists(result, 'evidence')
ORDER BY item_key
LIMIT :size
FOR NO KEY UPDATE;

-- name: write_results!
-- Writes the results of rows that are done, after a decision about them.
UPDATE job_item AS item
SET result = given.result::jsonb, updated_at = greatest(now(), item.updated_at + interval '1 microsecond')
FROM unnest(:item_ids::bigint[], :results::text[]) AS given (item_id, result)
WHERE item.item_id = given.item_id AND item.status = 'SUCCEEDED';

-- name: move_outcomes!
-- Corrects the counts that a job which is over keeps in its result. The job's row is locked in any case, so that a job
-- which ends meanwhile counts what was decided.
UPDATE job
SET result = CASE WHEN result IS NOT NULL THEN
    result || jsonb_build_object('outcomes', coalesce(result -> 'outcomes', '{}') || (
        SELECT jsonb_object_agg(
            moved.outcome, greatest(0, coalesce((result -> 'outcomes' ->> moved.outcome)::bigint, 0) + moved.count)
        )
        FROM unnest(:outcomes::text[], :counts::bigint[]) AS moved (outcome, count)
    )) END
WHERE job_id = :job_id;

-- name: judged_scores
-- What the best candidates of decided rows came to: thresholds are learned from that. The latest decisions count.
SELECT best_score, coalesce(lead, best_score) AS lead, verdict = 'accept' AND entry ->> 'id' = best_id AS is_right
FROM review_decision
WHERE recipe = :recipe AND best_score IS NOT NULL
    AND (verdict <> 'open' OR best_id = ANY (rejected))
ORDER BY decided_at DESC
LIMIT :most;

-- name: rows_over
-- Of the rows of a job that nobody decided about: how many do not match now and would by a threshold and a margin, and
-- how many match now and would not.
SELECT
    count(*) FILTER (WHERE is_over AND outcome <> 'matched') AS more,
    count(*) FILTER (WHERE NOT is_over AND outcome = 'matched') AS less
FROM (
    SELECT result ->> 'outcome' AS outcome,
        (result #>> '{evidence,candidates,0,score}')::float8 >= :threshold
            AND coalesce((result #>> '{evidence,lead}')::float8, 0) >= :margin AS is_over
    FROM job_item
    WHERE job_id = :job_id AND status = 'SUCCEEDED' AND result #>> '{evidence,candidates,0,score}' IS NOT NULL
        AND result #>> '{evidence,decision}' IS NULL
) AS row;

-- name: less_sure
-- The items of a job that are matched with an entry with which another row is matched more surely. What a reviewer
-- chose stays.
SELECT item_id, entry FROM (
    SELECT item_id, result #>> '{evidence,id}' AS entry, result #>> '{evidence,decision}' IS NOT DISTINCT FROM 'accept' AS chosen, row_number() OVER (
        PARTITION BY result #>> '{evidence,id}'
        ORDER BY result #>> '{evidence,decision}' IS NOT DISTINCT FROM 'accept' DESC,
            (result #>> '{evidence,score}')::float8 DESC NULLS LAST, item_key
    ) AS place
    FROM job_item
    WHERE job_id = :job_id AND status = 'SUCCEEDED' AND result ->> 'outcome' = 'matched'
) AS matched
WHERE place > 1 AND NOT chosen
ORDER BY item_id;

-- name: losing_rows
-- Rows that are judged anew, locked against a reviewer who decides about them.
SELECT item_id, input, result
FROM job_item AS item
JOIN unnest(:item_ids::bigint[], :entries::text[]) AS losing (item_id, entry) USING (item_id)
WHERE item.status = 'SUCCEEDED' AND result ->> 'outcome' = 'matched' AND result #>> '{evidence,id}' = losing.entry
    AND result #>> '{evidence,decision}' IS DISTINCT FROM 'accept'
ORDER BY item_id
FOR NO KEY UPDATE OF item;
