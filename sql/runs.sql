-- name: take_up
-- Notes that a run has taken the job up. No row: it had done so before.
INSERT INTO job_run (dagster_run_id, job_id, redriving) VALUES (:dagster_run_id, :job_id, :redriving)
ON CONFLICT (dagster_run_id) DO NOTHING
RETURNING dagster_run_id;

-- name: is_redriving
-- Whether a run still has to put back what was buried.
SELECT redriving FROM job_run WHERE dagster_run_id = :dagster_run_id;

-- name: redriven
-- All of it is put back. No row: another step of the run has said so before.
UPDATE job_run SET redriving = false WHERE dagster_run_id = :dagster_run_id AND redriving RETURNING dagster_run_id;
