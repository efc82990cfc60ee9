-- name: hashes_of_job
-- The hashes of a job's pictures in the order of its rows, each with what the picture is called.
SELECT item_id, coalesce(nullif(result -> 'evidence' ->> 'name', ''), item_key) AS name,
    result #>> '{evidence,candidates,0,features,phash}' AS phash
FROM job_item
WHERE job_id = :job_id AND status = 'SUCCEEDED' AND result #>> '{evidence,candidates,0,features,phash}' IS NOT NULL
ORDER BY item_key;

-- name: note_doubles!
-- Says of pictures which other one they are near-doubles of, in the evidence and in the grid's columns for it. What is
-- right already is not written again.
UPDATE job_item AS item
SET result = jsonb_set(
    jsonb_set(item.result, '{evidence,double_of}', to_jsonb(given.double_of)),
    '{grid}',
    coalesce(item.result -> 'grid', '{}')
        || coalesce((SELECT jsonb_object_agg(header, given.double_of) FROM unnest(:headers::text[]) AS header), '{}')
)
FROM (
    SELECT item_id, coalesce(to_jsonb(double_of), 'null') AS double_of
    FROM unnest(:item_ids::bigint[], :doubles::text[]) AS said (item_id, double_of)
) AS given
WHERE item.item_id = given.item_id AND item.job_id = :job_id AND item.status = 'SUCCEEDED'
    AND coalesce(item.result -> 'evidence' -> 'double_of', 'null') IS DISTINCT FROM given.double_of;
