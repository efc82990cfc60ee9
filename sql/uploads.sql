-- name: free_key!
-- Takes a key from an upload whose process has died, and from a resumable one that the same request begins anew.
UPDATE upload SET state = 'CLEARING', expires_at = now()
WHERE owner = :owner AND idempotency_key = :idempotency_key AND state = 'ARRIVING'
    AND (expires_at < now() OR (told AND request = :request::jsonb));

-- name: begin
-- Begins an upload. No row comes back while another one with the same key of the same owner arrives.
INSERT INTO upload (upload_id, owner, job_key, idempotency_key, request, name, resumable, length, expires_at)
VALUES (
    :upload_id, :owner, new_job_key(), :idempotency_key, :request::jsonb, :name, :resumable, :length,
    now() + make_interval(secs => :seconds)
)
ON CONFLICT (owner, idempotency_key) WHERE state = 'ARRIVING' AND idempotency_key IS NOT NULL DO NOTHING
RETURNING upload_id, owner, job_key, idempotency_key, request, name, state, resumable, told, bytes, part_terms, length, term,
    landed, landed_version, landed_bytes, sha256, expires_at;

-- name: arriving
-- For how many more seconds the upload with this key is waited for.
SELECT extract(epoch FROM expires_at - now())::float8 FROM upload
WHERE owner = :owner AND idempotency_key = :idempotency_key AND state = 'ARRIVING';

-- name: find
-- One upload, if it belongs to the owner who asks.
SELECT upload_id, owner, job_key, idempotency_key, request, name, state, resumable, told, bytes, part_terms, length, term,
    landed, landed_version, landed_bytes, sha256, expires_at
FROM upload WHERE upload_id = :upload_id AND (:owner::text IS NULL OR owner = :owner);

-- name: of_job
-- The file that was sent for a job.
SELECT upload_id, owner, job_key, idempotency_key, request, name, state, resumable, told, bytes, part_terms, length, term,
    landed, landed_version, landed_bytes, sha256, expires_at
FROM upload WHERE job_key = :job_key;

-- name: put_off
-- Puts off the end of an upload while somebody sends. No row comes back when it was taken over or given up.
UPDATE upload SET expires_at = now() + make_interval(secs => :seconds)
WHERE upload_id = :upload_id AND term = :term AND state = 'ARRIVING'
RETURNING upload_id;

-- name: tell
-- Notes that the sender of a resumable upload is told its address: from now on it is kept for long. No row comes back when
-- the upload was taken over or given up.
UPDATE upload SET told = true, expires_at = now() + make_interval(secs => :seconds)
WHERE upload_id = :upload_id AND term = :term AND state = 'ARRIVING'
RETURNING upload_id;

-- name: take_over
-- Takes an upload over from whoever still sends to it: what they send from now on is not taken.
UPDATE upload SET term = term + 1, expires_at = greatest(expires_at, now() + make_interval(secs => :seconds))
WHERE upload_id = :upload_id AND state = 'ARRIVING' AND expires_at > now() AND (:owner::text IS NULL OR owner = :owner)
RETURNING upload_id, owner, job_key, idempotency_key, request, name, state, resumable, told, bytes, part_terms, length, term,
    landed, landed_version, landed_bytes, sha256, expires_at;

-- name: set_length
-- Notes how long the upload is going to be. No row comes back when another length was said before, when more than that
-- has arrived, or when the upload was taken over or given up.
UPDATE upload SET length = :length
WHERE upload_id = :upload_id AND term = :term AND state = 'ARRIVING' AND coalesce(length, :length) = :length
    AND bytes <= :length
RETURNING upload_id;

-- name: add_part
-- Adds a part that has been stored. No row comes back when the upload was taken over.
UPDATE upload SET bytes = bytes + :bytes, part_terms = part_terms || :term::integer, expires_at = now() + make_interval(secs => :seconds)
WHERE upload_id = :upload_id AND term = :term AND state = 'ARRIVING' AND cardinality(part_terms) = :parts
RETURNING upload_id, owner, job_key, idempotency_key, request, name, state, resumable, told, bytes, part_terms, length, term,
    landed, landed_version, landed_bytes, sha256, expires_at;

-- name: drop_parts
-- Forgets the parts of a request whose content was not what its digest said.
UPDATE upload SET bytes = :bytes, part_terms = part_terms[1 : :parts]
WHERE upload_id = :upload_id AND term = :term AND state = 'ARRIVING'
RETURNING upload_id;

-- name: submit
-- Notes, in the transaction that submits the import, that the upload is over.
UPDATE upload
SET state = 'SUBMITTED', landed = :landed, landed_version = :landed_version, landed_bytes = :landed_bytes, sha256 = :sha256,
    bytes = :bytes, length = :bytes, name = coalesce(:name, name)
WHERE upload_id = :upload_id AND term = :term AND state = 'ARRIVING'
RETURNING upload_id;

-- name: give_up!
-- Marks an upload for being cleared away. It waits for a transaction that submits the upload at this moment, also for one
-- whose client has lost its connection.
UPDATE upload SET state = 'CLEARING', expires_at = now()
WHERE upload_id = :upload_id AND state = 'ARRIVING';

-- name: submitted
-- A row if the import of an upload was submitted.
SELECT upload_id FROM upload WHERE upload_id = :upload_id AND state = 'SUBMITTED';

-- name: expired
-- Uploads that nobody goes on with, and those that somebody began to clear away and did not finish.
UPDATE upload SET state = 'CLEARING'
WHERE upload_id IN (
    SELECT upload_id FROM upload WHERE state <> 'SUBMITTED' AND expires_at < now() - make_interval(secs => :seconds)
    ORDER BY expires_at LIMIT :most FOR UPDATE SKIP LOCKED
)
RETURNING upload_id, job_key;

-- name: any_expired
-- Whether there is an upload to clear away.
SELECT EXISTS (SELECT FROM upload WHERE state <> 'SUBMITTED' AND expires_at < now());

-- name: remove!
-- Removes an upload whose files are gone.
DELETE FROM upload WHERE upload_id = :upload_id AND state = 'CLEARING';

-- name: forget!
-- Removes uploads whose jobs retention has removed.
DELETE FROM upload WHERE state = 'SUBMITTED' AND created_at < now() - make_interval(days => :days)
    AND NOT EXISTS (SELECT FROM job WHERE job.job_key = upload.job_key);
