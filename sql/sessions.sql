-- name: insert_session!
-- Begins a session, of which only the hash is kept.
INSERT INTO console_session (session_id, key_id, hash, expires_at)
VALUES (:session_id, :key_id, :hash, now() + make_interval(hours => :hours));

-- name: find_session
-- A session whose key is still valid. The secret before the last change counts for a minute: several requests of one
-- page may be on their way while it is changed.
SELECT api_key.owner, api_key.scope, api_key.key_id, session.hash,
    CASE WHEN session.changed_at > now() - interval '1 minute' THEN session.former_hash END AS former_hash,
    session.changed_at < now() - make_interval(mins => :minutes) AS is_old
FROM console_session AS session JOIN api_key USING (key_id)
WHERE session.session_id = :session_id AND session.expires_at > now()
    AND api_key.revoked_at IS NULL AND (api_key.expires_at IS NULL OR api_key.expires_at > now());

-- name: valid_sessions
-- All sessions that are not over, and whose keys are valid: read now and then for all open pages together.
SELECT session.session_id
FROM console_session AS session JOIN api_key USING (key_id)
WHERE session.expires_at > now()
    AND api_key.revoked_at IS NULL AND (api_key.expires_at IS NULL OR api_key.expires_at > now());

-- name: change_secret
-- Gives a session another secret. Of two requests at once only one does: the other finds another hash.
UPDATE console_session SET former_hash = hash, hash = :hash, changed_at = now()
WHERE session_id = :session_id AND hash = :known
RETURNING session_id;

-- name: end_session!
-- Ends a session: its cookie is refused from now on.
DELETE FROM console_session WHERE session_id = :session_id;

-- name: remove_ended!
-- Removes sessions that are over.
DELETE FROM console_session WHERE expires_at < now();
