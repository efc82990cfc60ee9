-- name: insert_key
-- Adds a key, of which only the hash is kept.
INSERT INTO api_key (key_id, owner, scope, hash, expires_at)
VALUES (:key_id, :owner, :scope, :hash, :expires_at)
RETURNING key_id, owner, scope, created_at, expires_at, revoked_at, last_used_at;

-- name: revoke_key
-- Revokes a key. No row comes back when there is none, or when it was revoked before.
UPDATE api_key SET revoked_at = now() WHERE key_id = :key_id AND revoked_at IS NULL
RETURNING key_id, owner, scope, created_at, expires_at, revoked_at, last_used_at;

-- name: find_key
-- What is known of one key.
SELECT key_id, owner, scope, created_at, expires_at, revoked_at, last_used_at FROM api_key WHERE key_id = :key_id;

-- name: hash_of_key
-- The hash that a key is compared with.
SELECT hash FROM api_key WHERE key_id = :key_id;

-- name: keys
-- All keys, the newest first.
SELECT key_id, owner, scope, created_at, expires_at, revoked_at, last_used_at
FROM api_key ORDER BY created_at DESC, key_id;

-- name: any_key
-- Whether a key was ever made, valid or not.
SELECT EXISTS (SELECT FROM api_key);

-- name: note_use!
-- Notes that a key is used, to the minute: a busy key is not written with every request.
UPDATE api_key SET last_used_at = now()
WHERE key_id = :key_id AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute');
