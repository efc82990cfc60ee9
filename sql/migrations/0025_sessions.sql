-- The console's logins: a key is shown once more, to a page, which keeps a cookie in its place.

CREATE TABLE console_session (
    session_id text PRIMARY KEY,
    -- A session is never more than its key: whoever revokes the key ends it.
    key_id text NOT NULL REFERENCES api_key ON DELETE CASCADE,
    hash bytea NOT NULL,
    -- The secret before the last change: requests that were on their way still bear it.
    former_hash bytea,
    changed_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);

-- Sessions that are over are removed by the next login.
CREATE INDEX console_session_by_end ON console_session (expires_at);
