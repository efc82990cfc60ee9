-- name: landed_source
-- What was landed of a job's source.
SELECT source, landed, bytes, sha256, format, columns FROM processing_source WHERE job_id = :job_id;

-- name: note_source!
-- Notes what was landed, once: whoever plans the job again reads the same copy. What was found in it is added.
INSERT INTO processing_source (job_id, source, landed, bytes, sha256, format, columns)
VALUES (:job_id, :source, :landed, :bytes, :sha256, :format, :columns)
ON CONFLICT (job_id) DO UPDATE SET format = excluded.format, columns = excluded.columns
WHERE processing_source.landed = excluded.landed;

-- name: landed_is_gone!
-- Notes that the landed copy of a job was removed.
UPDATE processing_source SET landed = NULL WHERE job_id = :job_id;

-- name: outcome_counts
-- How many items of a job came to which outcome, by which provider, and how many answers were kept ones.
SELECT item.state::text AS state, CASE WHEN item.status IN ('SUCCEEDED', 'RETRY_WAIT') THEN item.result ->> 'outcome' END,
    item.result -> 'evidence' ->> 'provider', (item.result -> 'evidence' ->> 'cached')::boolean, count(*)
FROM job_item AS item
WHERE job_id = :job_id
GROUP BY 1, 2, 3, 4;

-- name: score_counts
-- How many items have a score in each twentieth between 0 and 1.
SELECT least(19, floor((result -> 'evidence' ->> 'score')::float8 * 20))::int AS bin, count(*)
FROM job_item
WHERE job_id = :job_id AND result -> 'evidence' ->> 'score' IS NOT NULL
GROUP BY 1
ORDER BY 1;

-- name: reprocessable
-- The ids of items that were buried or not found and that a filter lets through, a page at a time.
SELECT item_id FROM job_item
WHERE job_id = :job_id
    AND status = ANY (:statuses::item_status[])
    AND item_id > :after
    AND (:item_keys::text[] IS NULL OR item_key = ANY (:item_keys))
    AND (:item_ids::bigint[] IS NULL OR item_id = ANY (:item_ids))
    -- Only those with tries left, if that is asked for.
    AND (:attempts::int IS NULL OR CASE WHEN status = 'NOT_FOUND' THEN not_found_count < :not_found_attempts::int
        ELSE attempt_count < :attempts END)
    AND (:error_like::text IS NULL OR strpos(lower(error_message), lower(:error_like)) > 0)
    AND (:error_class::text IS NULL OR error_class = :error_class)
    AND input @> :input::jsonb
ORDER BY item_id
LIMIT :most;

-- name: choose_variants!
-- Says which variants the next tries of these items use, and from when on kept answers serve them. Items that are worked,
-- or were not given up, are left alone.
UPDATE job_item
SET checkpoint = jsonb_build_object('variants', :variants::text[], 'again', now())
WHERE item_id = ANY (:item_ids::bigint[]) AND status IN ('DLQ', 'NOT_FOUND') AND lease_until IS NULL;
