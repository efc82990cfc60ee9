-- name: jobs_at_rest
-- Which of these jobs nobody should be at work on, and for how many seconds that has been so. The seconds are null for
-- a job that is not there any more.
SELECT given.job_key,
    extract(epoch FROM now() - greatest(job.finished_at, job.heartbeat_at, job.updated_at))::float8 AS seconds
FROM unnest(:job_keys::text[]) AS given (job_key)
LEFT JOIN job USING (job_key)
WHERE job.job_key IS NULL OR job.status NOT IN ('SUBMITTED', 'RUNNING');
