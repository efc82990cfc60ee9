-- name: lock_source
-- Lets one daemon at a time look at a source, whatever number of daemons run.
SELECT pg_try_advisory_xact_lock(hashtextextended('bulk_pipelines.drops.' || :source, 0));

-- name: source_of
-- How a source has been answering, and how long to wait before the next look. The time is taken from the database's
-- clock.
SELECT failures, last_error, greatest(0, extract(epoch FROM retry_at - now()))::float8 AS wait_seconds
FROM drop_source WHERE source = :source;

-- name: longest_unseen_first
-- Sources in the order of their turns: first those that were never looked at, then the others by their last look, the
-- longest ago first.
SELECT name FROM unnest(:sources::text[]) WITH ORDINALITY AS asked (name, position)
LEFT JOIN drop_source ON drop_source.source = asked.name
ORDER BY drop_source.looked_at NULLS FIRST, asked.position;

-- name: moment
-- The time by the database's clock. Everything that is seen after this query is noted with a later time.
SELECT clock_timestamp();

-- name: note_answer!
-- Notes whether the source answered. After each failure in a row, the next look waits longer. The wait counts from this
-- statement, because the transaction began before the source was asked.
INSERT INTO drop_source (source, failures, retry_at, last_error, looked_at)
VALUES (:source, CASE WHEN :error::text IS NULL THEN 0 ELSE 1 END,
    statement_timestamp() + make_interval(secs => :delay), :error, statement_timestamp())
ON CONFLICT (source) DO UPDATE SET
    failures = CASE WHEN :error::text IS NULL THEN 0 ELSE drop_source.failures + 1 END,
    retry_at = excluded.retry_at, last_error = :error, looked_at = excluded.looked_at;

-- name: bring_back!
-- Watches files again that went away before they were complete and are back unchanged: nobody has taken them.
UPDATE file_drop AS known
SET status = 'WATCHED', looks = 1, first_seen_at = now(), unchanged_since = now(), seen_at = now(), ended_at = NULL,
    note = NULL
FROM unnest(:paths::text[], :versions::text[]) AS seen (path, version)
WHERE known.source = :source AND known.path = seen.path AND known.version = seen.version AND known.status = 'VANISHED'
    AND NOT EXISTS (
        SELECT FROM file_drop AS other
        WHERE other.source = known.source AND other.path = known.path AND other.status = 'WATCHED'
    );

-- name: note_files
-- Notes what a look saw. A version that was dealt with before is left alone; a watched file that changed is watched
-- anew.
WITH seen AS (
    SELECT * FROM unnest(
        :paths::text[], :versions::text[], :sizes::bigint[], :modified::timestamptz[], :resources::text[]
    ) AS s (path, version, size, modified_at, resource)
),
fresh AS (
    SELECT seen.* FROM seen
    WHERE NOT EXISTS (
        SELECT FROM file_drop AS known
        WHERE known.source = :source AND known.path = seen.path AND known.version = seen.version
            AND known.status <> 'WATCHED'
    )
),
-- These files are still there. Retention must not forget them, or they would be taken again. Noting that once a day is
-- enough.
kept AS (
    UPDATE file_drop AS known SET seen_at = now() FROM seen
    WHERE known.source = :source AND known.path = seen.path AND known.version = seen.version
        AND known.status <> 'WATCHED' AND known.seen_at < now() - interval '1 day'
),
noted AS (
    INSERT INTO file_drop AS watched (source, path, version, size, modified_at, resource)
    SELECT :source, path, version, size, modified_at, resource FROM fresh
    ON CONFLICT (source, path) WHERE status = 'WATCHED' DO UPDATE SET
        looks = CASE WHEN watched.version = excluded.version THEN watched.looks + 1 ELSE 1 END,
        unchanged_since = CASE WHEN watched.version = excluded.version THEN watched.unchanged_since ELSE now() END,
        version = excluded.version,
        size = excluded.size,
        modified_at = excluded.modified_at,
        resource = excluded.resource,
        seen_at = now()
    RETURNING 1
)
SELECT (SELECT count(*) FROM seen) AS seen, (SELECT count(*) FROM noted) AS watched;

-- name: forget_unseen
-- Marks watched files as vanished that were not there at the last whole look: somebody took them away before they were
-- complete. Files below a folder that the look could not read are left alone, because nobody knows whether they are
-- there.
UPDATE file_drop SET status = 'VANISHED', ended_at = now(), note = 'it went away before it was complete'
WHERE source = :source AND status = 'WATCHED' AND seen_at < :look_began
    AND NOT EXISTS (
        SELECT FROM unnest(:unread::text[]) AS unread (path)
        WHERE file_drop.path = unread.path OR starts_with(file_drop.path, unread.path || '/')
    )
RETURNING path;

-- name: note_unmatched!
-- Notes the files that no rule is for, as a look saw them. After a whole look, the files that it did not see are
-- removed.
WITH seen AS (
    SELECT * FROM unnest(:paths::text[], :sizes::bigint[]) AS s (path, size)
),
gone AS (
    DELETE FROM unmatched_drop AS known
    WHERE :whole AND known.source = :source AND NOT EXISTS (SELECT FROM seen WHERE seen.path = known.path)
)
INSERT INTO unmatched_drop AS known (source, path, size)
SELECT :source, path, size FROM seen
ON CONFLICT (source, path) DO UPDATE SET size = excluded.size WHERE known.size <> excluded.size;

-- name: ready_files
-- Chooses complete files. A file is complete when it has been the same for two looks and for long enough, or when a
-- marker that is not older than the file says so.
-- A file waits while an earlier version of it is being imported, because side by side the older version could have the
-- last word. It also waits while a file of a resource that it refers to is arriving, if that file was first seen before
-- it, or so soon after that they belong together.
WITH marker AS (
    SELECT path, max(modified_at) AS modified_at
    FROM unnest(:marked::text[], :marked_at::timestamptz[]) AS m (path, modified_at)
    GROUP BY path
),
seen AS (
    SELECT watched.drop_id, watched.path, watched.resource, watched.modified_at, watched.first_seen_at,
        watched.unchanged_since,
        CASE WHEN :with_markers
            THEN marker.path IS NOT NULL AND coalesce(marker.modified_at >= watched.modified_at, true)
            ELSE looks >= 2 AND unchanged_since <= now() - make_interval(secs => :settle_seconds)
        END AS complete,
        watched.path IN (
            SELECT earlier.path FROM file_drop AS earlier WHERE earlier.source = :source AND earlier.status = 'TAKEN'
        ) AS behind_earlier
    FROM file_drop AS watched
    LEFT JOIN marker ON marker.path = watched.path
    WHERE source = :source AND status = 'WATCHED' AND seen_at >= :look_began
),
arriving AS (
    SELECT resource, min(first_seen_at) AS first_seen_at FROM seen
    WHERE (NOT complete OR behind_earlier) AND first_seen_at > now() - make_interval(secs => :stalled_seconds)
    GROUP BY resource
),
judged AS (
    SELECT seen.*,
        EXISTS (
            SELECT FROM arriving JOIN unnest(:needing::text[], :needed::text[]) AS pair (needing, needed)
                ON pair.needed = arriving.resource
            WHERE pair.needing = seen.resource
                AND arriving.first_seen_at < seen.unchanged_since + make_interval(secs => :together_seconds)
        ) AS behind_needed
    FROM seen
    WHERE complete
),
chosen AS (
    SELECT drop_id FROM judged
    WHERE NOT behind_earlier AND NOT behind_needed
    ORDER BY array_position(:resource_order::text[], resource), modified_at NULLS LAST, path
    LIMIT :most
)
SELECT
    (SELECT count(*) FROM judged WHERE behind_earlier) AS behind_earlier,
    (SELECT count(*) FROM judged WHERE behind_needed AND NOT behind_earlier) AS behind_needed,
    (SELECT count(*) FROM judged) - (SELECT count(*) FROM chosen)
        - (SELECT count(*) FROM judged WHERE behind_earlier OR behind_needed) AS left_over,
    ARRAY(SELECT drop_id FROM chosen) AS drop_ids;

-- name: files_to_take
-- Locks the chosen files and returns them in the order in which they count, each with the contents (at most the newest
-- thousand) that its path had before.
SELECT drop_id, path, version, size, resource,
    ARRAY(
        SELECT earlier.sha256 FROM file_drop AS earlier
        WHERE earlier.source = watched.source AND earlier.path = watched.path
            AND earlier.status IN ('DONE', 'DUPLICATE') AND earlier.sha256 IS NOT NULL
        GROUP BY earlier.sha256
        ORDER BY max(earlier.drop_id) DESC
        LIMIT 1000
    ) AS known_sha256
FROM file_drop AS watched
WHERE drop_id = ANY (:drop_ids::bigint[]) AND status = 'WATCHED'
ORDER BY modified_at NULLS LAST, path
FOR UPDATE;

-- name: stalled_files
-- Uploads that began long ago and are still not complete, without those that wait for their earlier version.
SELECT path, size, extract(epoch FROM now() - first_seen_at)::float8 AS age_seconds FROM file_drop AS watched
WHERE source = :source AND status = 'WATCHED' AND first_seen_at < now() - make_interval(secs => :stalled_seconds)
    AND path NOT IN (
        SELECT earlier.path FROM file_drop AS earlier WHERE earlier.source = :source AND earlier.status = 'TAKEN'
    )
ORDER BY first_seen_at
LIMIT 20;

-- name: take_files!
-- Marks files as taken, in the transaction that submits their job: they are both taken and submitted, or neither.
-- Each has the number that it has in the import, which is its place among the files that were submitted.
UPDATE file_drop SET status = 'TAKEN', job_id = :job_id, file_number = file.number, taken_at = now()
FROM unnest(:drop_ids::bigint[]) WITH ORDINALITY AS file (drop_id, number)
WHERE file_drop.drop_id = file.drop_id;

-- name: unfinished_jobs_of
-- Unfinished jobs of this source that load what a later job refers to.
SELECT DISTINCT job.job_id FROM file_drop
JOIN job USING (job_id)
WHERE file_drop.source = :source AND file_drop.status = 'TAKEN' AND file_drop.resource = ANY (:resources::text[])
    AND job.finished_at IS NULL
ORDER BY job.job_id;

-- name: wait_for!
-- Makes a job wait: the relay launches it only after the jobs given.
UPDATE job SET waits_for = :waits_for::bigint[] WHERE job_id = :job_id;

-- name: ended_files
-- Files whose job is over or gone: what happens to them now depends on how the job went. Also files that failed before,
-- when their job was tried again and is over again.
SELECT drop_id, path, version, job.job_key, job.status AS job_status, job.finished_at, job.last_error,
    coalesce(job.dlq_items, 0) AS dlq_items,
    coalesce(extract(epoch FROM now() - job.finished_at), 0)::float8 AS seconds_since_end,
    file_drop.status = 'FAILED' AS failed_before,
    coalesce((job.params ->> 'file_count')::int, 1) AS files_of_job
FROM file_drop
LEFT JOIN job USING (job_id)
WHERE file_drop.source = :source
    AND (
        (file_drop.status = 'TAKEN' AND (job.finished_at IS NOT NULL OR job.job_id IS NULL))
        OR (file_drop.status = 'FAILED' AND job.finished_at > file_drop.ended_at)
    )
ORDER BY drop_id
LIMIT :most;

-- name: outcomes_of_files
-- What the imports noted about files, and the contents of files whose rows were processed.
SELECT drop_id, import_file.sha256, import_file.duplicate, import_file.note,
    (
        SELECT min(item.error_message) FROM job_item AS item
        WHERE item.job_id = file_drop.job_id AND item.status = 'DLQ' AND EXISTS (
            SELECT FROM jsonb_array_elements(item.input -> 'ranges') AS part
            WHERE (part ->> 0)::int = import_file.number
        )
    ) AS range_error
FROM file_drop
JOIN import_file ON import_file.job_id = file_drop.job_id AND import_file.number = file_drop.file_number
WHERE drop_id = ANY (:drop_ids::bigint[])
UNION ALL
SELECT drop_id, processing_source.sha256, false, NULL, NULL
FROM file_drop
JOIN processing_source USING (job_id)
WHERE drop_id = ANY (:drop_ids::bigint[]);

-- name: end_files!
-- Writes the final status of files, after they were moved, deleted or left. It is about the end of the job that was
-- read: a job that was tried again and has ended since then has a later one, and its files are looked at again.
UPDATE file_drop AS taken
SET status = ended.status, sha256 = ended.sha256, note = ended.note, ended_at = coalesce(ended.job_finished_at, now())
FROM unnest(
    :drop_ids::bigint[], :statuses::drop_status[], :sha256s::text[], :notes::text[], :jobs_finished_at::timestamptz[]
) AS ended (drop_id, status, sha256, note, job_finished_at)
WHERE taken.drop_id = ended.drop_id AND taken.status IN ('TAKEN', 'FAILED');

-- name: list_drops
-- The ledger of dropped files, the newest first, together with the files that no rule is for.
SELECT source, path, size, resource, status, job_key, note, at
FROM (
    (
        SELECT source, path, size, resource, file_drop.status::text, job.job_key, note,
            coalesce(ended_at, taken_at, seen_at) AS at, first_seen_at, drop_id
        FROM file_drop LEFT JOIN job USING (job_id)
        WHERE (:source::text IS NULL OR source = :source) AND (:status::text IS NULL OR file_drop.status::text = :status)
        ORDER BY drop_id DESC
        LIMIT :most
    )
    UNION ALL
    (
        SELECT source, path, size, NULL, 'UNMATCHED', NULL, 'no rule of this source is for it', first_seen_at,
            first_seen_at, NULL
        FROM unmatched_drop
        WHERE (:source::text IS NULL OR source = :source) AND coalesce(:status::text, 'UNMATCHED') = 'UNMATCHED'
        ORDER BY first_seen_at DESC, path
        LIMIT :most
    )
) AS listed
ORDER BY first_seen_at DESC, drop_id DESC NULLS LAST, path
LIMIT :most;

-- name: ledger_page
-- A page of the ledger, the newest first, behind :before_id.
SELECT drop_id, source, path, size, resource, file_drop.status::text, job.job_key, note,
    coalesce(ended_at, taken_at, seen_at) AS at
FROM file_drop LEFT JOIN job USING (job_id)
WHERE (:source::text IS NULL OR source = :source) AND (:status::text IS NULL OR file_drop.status::text = :status)
    AND (:before_id::bigint IS NULL OR drop_id < :before_id)
ORDER BY drop_id DESC
LIMIT :size;

-- name: looks_at_sources
-- How the sources have been answering.
SELECT source, failures, retry_at, last_error, looked_at FROM drop_source;

-- name: failed_drop
-- The last version of the file at a path, in each source that knows it.
SELECT DISTINCT ON (source) drop_id, source, path, version, file_drop.status::text, job.job_key,
    job.job_id IS NOT NULL AND coalesce(job.finished_at > file_drop.ended_at, true) AS taken_up_again
FROM file_drop LEFT JOIN job USING (job_id)
WHERE path = :path AND (:source::text IS NULL OR source = :source)
ORDER BY source, drop_id DESC;

-- name: watch_again
-- Watches a failed file again, so that it is taken anew if it is still where it was. It counts as seen now, so that a
-- look that has already begun does not count it as missing.
UPDATE file_drop
SET status = 'WATCHED', job_id = NULL, file_number = NULL, taken_at = NULL, ended_at = NULL, looks = 1, unchanged_since = now(), note = NULL,
    first_seen_at = now(), seen_at = now()
WHERE drop_id = :drop_id AND status = 'FAILED'
    AND NOT EXISTS (
        SELECT FROM file_drop AS other
        WHERE other.source = file_drop.source AND other.path = file_drop.path AND other.status = 'WATCHED'
    )
RETURNING path;

-- name: note_whole_look!
-- Notes that the source was listed to its end: a file that has not been seen since that look began was not there,
-- unless it lies in a place that the look could not read.
INSERT INTO drop_source (source, whole_look_at, unread) VALUES (:source, :look_began, :unread::text[])
ON CONFLICT (source) DO UPDATE SET whole_look_at = excluded.whole_look_at, unread = excluded.unread;

-- name: note_present!
-- Notes that files are still there which no rule is for any more. Their versions must not be forgotten: a rule that
-- comes back would take the files again.
UPDATE file_drop AS known SET seen_at = now()
FROM unnest(:paths::text[], :versions::text[]) AS seen (path, version)
WHERE known.source = :source AND known.path = seen.path AND known.version = seen.version
    AND known.status <> 'WATCHED' AND known.seen_at < now() - interval '1 day';

-- name: prune_drops!
-- Removes a bounded number of old entries whose file has been gone from its source for long. An entry is what keeps its
-- file from being taken again, so it goes only when a look that saw the whole source did not see the file. That a file
-- was seen is noted once a day (note_files), so the query allows a day for that. A source that is down, or was taken
-- out of the configuration, has no such looks and loses no entries.
DELETE FROM file_drop
WHERE drop_id = ANY (ARRAY(
    SELECT drop_id FROM file_drop JOIN drop_source USING (source)
    WHERE ended_at < now() - make_interval(days => :days)
        AND seen_at < now() - make_interval(days => :days) AND seen_at < whole_look_at - interval '1 day'
        AND NOT EXISTS (
            SELECT FROM unnest(drop_source.unread) AS unread (path)
            WHERE file_drop.path = unread.path OR starts_with(file_drop.path, unread.path || '/')
        )
    LIMIT :most
));

-- name: count_prunable_drops
-- How many entries `prune_drops` would remove, for a dry run.
SELECT count(*) FROM file_drop JOIN drop_source USING (source)
WHERE ended_at < now() - make_interval(days => :days)
    AND seen_at < now() - make_interval(days => :days) AND seen_at < whole_look_at - interval '1 day'
    AND NOT EXISTS (
        SELECT FROM unnest(drop_source.unread) AS unread (path)
        WHERE file_drop.path = unread.path OR starts_with(file_drop.path, unread.path || '/')
    );

-- name: prune_unmatched!
-- Removes the files without a rule of sources that are not looked at any more.
DELETE FROM unmatched_drop USING drop_source
WHERE drop_source.source = unmatched_drop.source AND looked_at < now() - make_interval(days => :days);
