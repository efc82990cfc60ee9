-- What the work of a job has asked of providers. Each row is written in the transaction that settles the job's items.
CREATE TABLE provider_request (
    job_id bigint NOT NULL REFERENCES job ON DELETE CASCADE,
    provider text NOT NULL,
    -- The status of the answer; "no answer" if none came; "put off" if nothing was sent, because our own limit was used up.
    status text NOT NULL,
    requests bigint NOT NULL,
    -- How long requests waited for their turn.
    waited_seconds double precision NOT NULL,
    -- For how long nobody was to ask the provider, because of its answers.
    throttled_seconds double precision NOT NULL,

    PRIMARY KEY (job_id, provider, status),
    CONSTRAINT provider_request_counts_are_not_negative CHECK (
        requests >= 0 AND waited_seconds >= 0 AND throttled_seconds >= 0
    )
);
