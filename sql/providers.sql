-- name: kept_answers
-- The kept answers to these requests, as far as they are young enough. "Nothing found" is kept for another time than an
-- answer. What a job itself has asked is young enough for its other rows.
SELECT request, answer, nothing, answered_at FROM provider_answer
WHERE provider = :provider AND request = ANY (:requests::bytea[])
    AND answered_at > coalesce(:not_before::timestamptz, least(
        now() - make_interval(secs => CASE WHEN nothing THEN :keep_nothing_seconds ELSE :keep_seconds END),
        coalesce(:since::timestamptz, 'infinity')
    ));

-- name: begin_asking
-- Notes that this process is about to make these requests, except those that somebody else is making, and those whose
-- answer is young enough. Rows are locked in one order, so that two processes that want the same never wait for each
-- other in a circle.
INSERT INTO provider_answer (provider, request, asking_until)
SELECT :provider, request, now() + make_interval(secs => :lease_seconds)
FROM unnest(:requests::bytea[]) AS wanted (request)
ORDER BY request
ON CONFLICT (provider, request) DO UPDATE SET asking_until = excluded.asking_until
WHERE (provider_answer.asking_until IS NULL OR provider_answer.asking_until <= now())
    AND (
        provider_answer.answered_at > coalesce(:not_before::timestamptz, least(
            now() - make_interval(
                secs => CASE WHEN provider_answer.nothing THEN :keep_nothing_seconds ELSE :keep_seconds END
            ),
            coalesce(:since::timestamptz, 'infinity')
        ))
    ) IS NOT TRUE
RETURNING request;

-- name: keep_answers!
-- Keeps answers. An answer to somebody who was thought dead is as good as another.
UPDATE provider_answer AS kept
SET answer = given.answer::jsonb, nothing = given.nothing, answered_at = now(), asking_until = NULL
FROM unnest(:requests::bytea[], :answers::text[], :nothing::boolean[]) AS given (request, answer, nothing)
WHERE kept.provider = :provider AND kept.request = given.request;

-- name: give_up_asking!
-- Lets others make at once the requests that this process did not get to.
UPDATE provider_answer SET asking_until = NULL
WHERE provider = :provider AND request = ANY (:requests::bytea[]) AND asking_until IS NOT NULL;

-- name: old_answers
-- Counts what is too old for every provider, for a dry run.
SELECT count(*) FROM provider_answer WHERE answered_at < now() - make_interval(days => :days);

-- name: forget_answers
-- Removes a bounded number of answers that are too old, and of requests that were never answered.
WITH old AS (
    SELECT ctid FROM provider_answer
    WHERE answered_at < now() - make_interval(days => :days)
        OR (answered_at IS NULL AND coalesce(asking_until, '-infinity') < now() - interval '1 day')
    LIMIT :most
    FOR UPDATE SKIP LOCKED
)
DELETE FROM provider_answer WHERE ctid = ANY (ARRAY(SELECT ctid FROM old));

-- name: add_requests!
-- Adds the requests that a worker has made for a job. The transaction has locked the job's row, so two workers that add
-- to the same rows never wait for each other in a circle.
INSERT INTO provider_request (job_id, provider, status, requests, waited_seconds, throttled_seconds)
SELECT :job_id, made.*
FROM unnest(:providers::text[], :statuses::text[], :requests::bigint[], :waited::float8[], :throttled::float8[])
    AS made (provider, status, requests, waited_seconds, throttled_seconds)
ON CONFLICT (job_id, provider, status) DO UPDATE
SET requests = provider_request.requests + excluded.requests,
    waited_seconds = provider_request.waited_seconds + excluded.waited_seconds,
    throttled_seconds = provider_request.throttled_seconds + excluded.throttled_seconds;

-- name: requests_of_job
-- What a job has asked of providers so far.
SELECT provider, status, requests, waited_seconds, throttled_seconds FROM provider_request
WHERE job_id = :job_id
ORDER BY provider, status;
