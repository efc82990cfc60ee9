-- The HTTP door: who may come in, who did what, and files that were sent.

ALTER TABLE job
    -- Where the request came from, as the door saw it.
    ADD COLUMN address text,
    -- The upload that the job's file came with.
    ADD COLUMN file_id text;

-- What an owner has open counts against the owner's limits with every submission.
CREATE INDEX job_open_of_owner ON job (owner) WHERE finished_at IS NULL;
-- Lists of one kind of job are walked from the newest.
CREATE INDEX job_by_number ON job (owner, job_id);

-- A key is shown once, when it is made. What is kept of it proves a key and gives none away.
CREATE TABLE api_key (
    key_id text PRIMARY KEY,
    owner text NOT NULL,
    scope text NOT NULL,
    hash bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,

    CONSTRAINT api_key_scope_is_known CHECK (scope IN ('read', 'write', 'admin')),
    CONSTRAINT api_key_owner_is_not_blank CHECK (btrim(owner) <> '')
);

-- Who did what to which job. No reference to the job: the record outlives it.
CREATE TABLE audit (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    happened_at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    origin text NOT NULL,
    address text,
    request_id text,
    action text NOT NULL,
    job_key text,
    kind text,
    -- Whom the job belongs to.
    owner text,
    details jsonb NOT NULL DEFAULT '{}',

    CONSTRAINT audit_details_is_object CHECK (jsonb_typeof(details) = 'object')
);

CREATE INDEX audit_of_owner ON audit (owner, audit_id);
CREATE INDEX audit_of_actor ON audit (actor, audit_id);
CREATE INDEX audit_of_job ON audit (job_key, audit_id);
-- Retention removes the oldest.
CREATE INDEX audit_by_time ON audit (happened_at);

-- How many bytes each owner has sent, by the hour: the sum of a day is an owner's limit.
CREATE TABLE sent_bytes (
    owner text NOT NULL,
    hour timestamptz NOT NULL,
    bytes bigint NOT NULL,

    PRIMARY KEY (owner, hour),
    CONSTRAINT sent_bytes_are_not_negative CHECK (bytes >= 0)
);
