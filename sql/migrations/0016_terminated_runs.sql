-- What a person means who terminates a run in Dagster's UI.

-- When it was seen that somebody has terminated the run. What that means for the job is decided once for each run: a
-- job that is resumed afterwards is not paused again by the same run.
ALTER TABLE job_run ADD COLUMN terminated_at timestamptz;
