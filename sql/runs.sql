-- name: take_up
-- Notes that a run has taken the job up. No row comes back when the run had done so before.
INSERT INTO job_run (dagster_run_id, job_id, redriving) VALUES (:dagster_run_id, :job_id, :redriving)
ON CONFLICT (dagster_run_id) DO NOTHING
RETURNING dagster_run_id;

-- name: is_redriving
-- Whether a run still has to put buried items back to work.
SELECT redriving FROM job_run WHERE dagster_run_id = :dagster_run_id;

-- name: redriven
-- Notes that a run has put all buried items back to work. No row comes back when another step of the run has noted that
-- before.
UPDATE job_run SET redriving = false WHERE dagster_run_id = :dagster_run_id AND redriving RETURNING dagster_run_id;

-- name: terminate
-- Notes that a person has terminated a run. No row comes back when that was noted before. The run may never have taken
-- its job up, because it was still in the queue.
INSERT INTO job_run (dagster_run_id, job_id, terminated_at) VALUES (:dagster_run_id, :job_id, now())
ON CONFLICT (dagster_run_id) DO UPDATE SET terminated_at = now() WHERE job_run.terminated_at IS NULL
RETURNING dagster_run_id;

-- name: not_terminated
-- Of these runs, those of which it was not noted yet that they were terminated.
SELECT dagster_run_id FROM unnest(:dagster_run_ids::text[]) AS given (dagster_run_id)
WHERE NOT EXISTS (
    SELECT FROM job_run WHERE job_run.dagster_run_id = given.dagster_run_id AND terminated_at IS NOT NULL
);
