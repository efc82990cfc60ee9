-- name: find_artifacts
-- The registry's rows for the inputs of a claim.
SELECT found.*
FROM unnest(:index_keys::text[], :effective_dates::date[], :asof_indicators::text[])
    AS wanted (index_key, effective_date, asof_indicator)
CROSS JOIN LATERAL (
    SELECT index_key, effective_date, asof_indicator, path, size, checksum, version, row_count, source_job_key
    FROM export_artifact
    WHERE index_key = wanted.index_key AND effective_date = wanted.effective_date
        AND asof_indicator = wanted.asof_indicator
    OFFSET 0
) AS found;

-- name: record_artifacts!
-- Writes the files of successful items into the registry. This runs in the transaction that settles the items, so that
-- a row stands for a success that was written under its lease.
-- The rows are written in the order of the key, so that two jobs that record the same keys at once never wait for each
-- other in a circle.
INSERT INTO export_artifact (
    index_key, effective_date, asof_indicator, path, size, checksum, version, row_count, source_job_key, generated_at
)
SELECT item.input ->> 'indexKey', to_date(item.input ->> 'effectiveDate', 'YYYYMMDD'), item.input ->> 'asofindicator',
    item.result ->> 'path', (item.result ->> 'size')::bigint, item.result ->> 'checksum', item.result ->> 'version',
    (item.result ->> 'rows')::bigint, item.job_key, (item.result ->> 'generatedAt')::timestamptz
FROM unnest(:item_ids::bigint[]) AS settled (item_id)
CROSS JOIN LATERAL (
    SELECT job_item.input, job_item.result, job.job_key FROM job_item JOIN job USING (job_id)
    WHERE job_item.item_id = settled.item_id
    OFFSET 0
) AS item
ORDER BY 1, 2, 3
ON CONFLICT (index_key, effective_date, asof_indicator) DO UPDATE
SET path = excluded.path,
    size = excluded.size,
    checksum = excluded.checksum,
    version = excluded.version,
    row_count = excluded.row_count,
    source_job_key = excluded.source_job_key,
    generated_at = excluded.generated_at
WHERE excluded.generated_at >= export_artifact.generated_at;

-- name: walk_position
-- Where the last pass through the registry stopped; no row when it came to the end.
SELECT index_key, effective_date, asof_indicator FROM export_artifact_walk;

-- name: registered_after
-- A bounded part of the registry, in the order of its key.
SELECT index_key, effective_date, asof_indicator, path, generated_at FROM export_artifact
WHERE (index_key, effective_date, asof_indicator) > (:index_key::text, :effective_date::date, :asof_indicator::text)
ORDER BY index_key, effective_date, asof_indicator
LIMIT :most;

-- name: forget_artifacts!
-- Removes the rows of files that were found to be gone. A row that was written since then names another file, and
-- stays.
-- The rows are locked in the order of the key, as by every query that writes to the registry.
DELETE FROM export_artifact
WHERE ctid = ANY (ARRAY(
    SELECT export_artifact.ctid
    FROM unnest(
        :index_keys::text[], :effective_dates::date[], :asof_indicators::text[], :paths::text[],
        :moments::timestamptz[]
    ) AS gone (index_key, effective_date, asof_indicator, path, generated_at)
    JOIN export_artifact USING (index_key, effective_date, asof_indicator, path, generated_at)
    ORDER BY index_key, effective_date, asof_indicator
    FOR UPDATE OF export_artifact
));

-- name: move_walk!
-- Notes where the pass through the registry has come to, in the transaction that removes rows: what was looked at is
-- not looked at again in this round.
INSERT INTO export_artifact_walk (index_key, effective_date, asof_indicator)
VALUES (:index_key, :effective_date, :asof_indicator)
ON CONFLICT (only_one) DO UPDATE
SET index_key = excluded.index_key, effective_date = excluded.effective_date, asof_indicator = excluded.asof_indicator;

-- name: end_walk!
-- Forgets the position, so that the next pass begins at the beginning.
DELETE FROM export_artifact_walk;

-- name: file_counts
-- How many of a job's successful inputs had a new file generated, and how many reused an existing one.
SELECT count(*) FILTER (WHERE NOT (result ->> 'reused')::boolean) AS generated,
    count(*) FILTER (WHERE (result ->> 'reused')::boolean) AS reused
FROM job_item WHERE job_id = :job_id AND status = 'SUCCEEDED';

-- name: job_and_files
-- A job, a page of its files in the order in which they were settled, and how many there are: in one statement, so that
-- all is of one moment and costs one question. Every page costs the same. Once the job is over, no file appears behind a
-- reader. While workers settle side by side, one of them may be a moment behind the other, so a file may still appear
-- behind a reader. A job that completed keeps its counts, even when its items are gone, so nothing is counted then: a
-- join would count in any case.
SELECT job_key, kind, status::text AS status, total_items, pending_items, running_items, retry_wait_items,
    succeeded_items, dlq_items, cancelled_items, last_error, files.page, files.last_time, files.last_id,
    CASE WHEN status = 'COMPLETED' AND result IS NOT NULL THEN result ELSE (
        SELECT jsonb_build_object(
            'filesGenerated', count(*) FILTER (WHERE NOT (job_item.result ->> 'reused')::boolean),
            'filesReused', count(*) FILTER (WHERE (job_item.result ->> 'reused')::boolean)
        )
        FROM job_item WHERE job_item.job_id = job.job_id AND job_item.status = 'SUCCEEDED'
    ) END AS counts
FROM job
CROSS JOIN LATERAL (
    -- The page is sorted in the order of the inputs: items are settled in batches, within which they have no order.
    SELECT coalesce(json_agg(json_build_array(input, path) ORDER BY item_id), '[]') AS page,
        max(updated_at) AS last_time, (array_agg(item_id ORDER BY updated_at DESC, item_id DESC))[1] AS last_id
    FROM (
        SELECT item_id, updated_at, input, result ->> 'path' AS path FROM job_item
        WHERE job_item.job_id = job.job_id AND status = 'SUCCEEDED'
            AND (updated_at, item_id) > (:after_time::timestamptz, :after_id::bigint)
        ORDER BY updated_at, item_id
        LIMIT :size
    ) AS settled
) AS files
WHERE job_key = :job_key AND (:owner::text IS NULL OR owner = :owner);

-- name: figures_of_job
-- The figures that sum up a job for people: files, bytes, rows and retries.
SELECT count(*) FILTER (WHERE status = 'SUCCEEDED') AS files,
    count(*) FILTER (WHERE status = 'SUCCEEDED' AND (result ->> 'reused')::boolean) AS reused,
    coalesce(sum((result ->> 'size')::bigint) FILTER (WHERE status = 'SUCCEEDED'
        AND NOT (result ->> 'reused')::boolean), 0)::bigint AS bytes_written,
    coalesce(sum((result ->> 'rows')::bigint) FILTER (WHERE status = 'SUCCEEDED'
        AND NOT (result ->> 'reused')::boolean), 0)::bigint AS rows_written,
    coalesce(sum(greatest(attempt_count - 1, 0)), 0)::bigint AS retries
FROM job_item WHERE job_id = :job_id;

-- name: shown_files
-- The first files of a job, in the order of its inputs.
SELECT input, result FROM job_item
WHERE job_id = :job_id AND status = 'SUCCEEDED'
ORDER BY item_id LIMIT :most;

-- name: slowest_files
-- The files of a job that took longest to produce or to check.
SELECT input, result FROM job_item
WHERE job_id = :job_id AND status = 'SUCCEEDED'
ORDER BY (result ->> 'seconds')::float8 DESC, item_id LIMIT :most;

-- name: fill_sample!
-- Writes index data for demonstrations and benchmarks, the same on every machine: what looks random is made from a
-- digest.
-- The weights of an index add up to one, but for rounding.
INSERT INTO index_data (index_key, effective_date, asof_indicator, constituent, weight, close)
SELECT index_key, effective_date, asof_indicator, constituent,
    round(share / sum(share) OVER (PARTITION BY index_key, effective_date, asof_indicator), 10),
    round(share * CASE asof_indicator WHEN 'ADJCLS' THEN 0.97 ELSE 1 END / 100, 6)
FROM (
    SELECT 'INDEX' || lpad(index_number::text, 5, '0') AS index_key,
        :first_day::date + day_number AS effective_date,
        asof_indicator,
        'XS' || upper(left(md5(index_number || ' ' || constituent_number), 10)) AS constituent,
        -- 1,000 to 65,535, from four digits of a digest.
        1000 + mod(
            ('x' || left(md5(index_number || ' ' || constituent_number || ' ' || day_number), 4))::bit(16)::int, 64536
        )::numeric AS share
    FROM generate_series(1, :indexes) AS index_number
    CROSS JOIN generate_series(0, :days - 1) AS day_number
    CROSS JOIN unnest(:asof_indicators::text[]) AS asof_indicator
    CROSS JOIN generate_series(1, :constituents) AS constituent_number
) AS sample
ON CONFLICT DO NOTHING;
