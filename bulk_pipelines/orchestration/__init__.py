"""What Dagster does for every kind of job: plan, lanes and finish as steps, runs and their jobs, the relay."""
