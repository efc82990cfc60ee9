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
