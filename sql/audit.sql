-- name: note_job
-- Writes down what somebody does to a job, in the transaction that does it.
INSERT INTO audit (actor, origin, address, request_id, action, job_key, kind, owner, details)
SELECT :actor, :origin, :address, :request_id, :action, job_key, kind, owner, :details::jsonb
FROM job WHERE job_id = :job_id
RETURNING audit_id;

-- name: note
-- Writes down something that somebody does and that is about no job.
INSERT INTO audit (actor, origin, address, request_id, action, owner, details)
VALUES (:actor, :origin, :address, :request_id, :action, :owner, :details::jsonb)
RETURNING audit_id;

-- name: count_more!
-- Adds to the count of what was done under an entry. Work that goes on in several transactions is one entry.
UPDATE audit
SET details = details || jsonb_build_object('count', coalesce((details ->> 'count')::bigint, 0) + :count)
WHERE audit_id = :audit_id;

-- name: page
-- A page of the audit, the newest first. An owner sees what was done to the owner's jobs and what the owner did.
SELECT audit_id, happened_at, actor, origin, address, request_id, action, job_key, kind, owner, details
FROM audit
WHERE (:visible_to::text IS NULL OR owner = :visible_to OR actor = :visible_to)
    AND (:before_id::bigint IS NULL OR audit_id < :before_id)
    AND (:job_key::text IS NULL OR job_key = :job_key)
    AND (:actor::text IS NULL OR actor = :actor)
    AND (:action::text IS NULL OR action = :action)
    AND (:owner::text IS NULL OR owner = :owner)
    AND (:since::timestamptz IS NULL OR happened_at >= :since)
    AND (:until::timestamptz IS NULL OR happened_at < :until)
ORDER BY audit_id DESC
LIMIT :size;

-- name: prune!
-- Removes the oldest entries, at most :most of them, for retention.
DELETE FROM audit WHERE audit_id IN (
    SELECT audit_id FROM audit WHERE happened_at < now() - make_interval(days => :days)
    ORDER BY happened_at LIMIT :most
);

-- name: count_old
-- How many entries retention would remove.
SELECT count(*) FROM audit WHERE happened_at < now() - make_interval(days => :days);
