-- Files that are sent over HTTP, from their first byte until their import is submitted.

CREATE TABLE upload (
    upload_id text PRIMARY KEY,
    owner text NOT NULL,
    -- The key that the import is going to have. What was sent lies in the landing storage under this name.
    job_key text NOT NULL CONSTRAINT upload_job_key_is_unique UNIQUE,
    idempotency_key text,
    -- What is to become of the file, as the sender asked.
    request jsonb NOT NULL,
    -- What the sender calls the file.
    name text,
    state text NOT NULL DEFAULT 'ARRIVING',
    resumable boolean NOT NULL,
    -- A resumable upload: how many bytes there are, and how many there will be, if that is known.
    bytes bigint NOT NULL DEFAULT 0,
    -- The parts that have arrived: by its place and its term a part is named, so nobody writes over another's.
    part_terms integer[] NOT NULL DEFAULT '{}',
    length bigint,
    -- Raised by every request that takes the upload over; what an earlier one still sends is not taken any more.
    term integer NOT NULL DEFAULT 1,
    -- The landed file, once it is whole.
    landed text,
    landed_version text,
    landed_bytes bigint,
    sha256 text,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Somebody who sends puts this off; after it the upload is cleared away.
    expires_at timestamptz NOT NULL,

    CONSTRAINT upload_state_is_known CHECK (state IN ('ARRIVING', 'SUBMITTED', 'CLEARING')),
    CONSTRAINT upload_request_is_object CHECK (jsonb_typeof(request) = 'object'),
    CONSTRAINT upload_is_not_negative CHECK (least(bytes, length) >= 0),
    CONSTRAINT upload_is_not_too_long CHECK (bytes <= length),
    CONSTRAINT upload_landed_is_whole CHECK (landed IS NULL OR landed_bytes IS NOT NULL AND sha256 IS NOT NULL)
);

-- One request with a key arrives at a time.
CREATE UNIQUE INDEX upload_arriving ON upload (owner, idempotency_key)
    WHERE state = 'ARRIVING' AND idempotency_key IS NOT NULL;
CREATE INDEX upload_expired ON upload (expires_at) WHERE state <> 'SUBMITTED';
