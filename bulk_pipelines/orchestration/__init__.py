"""What Dagster does for every kind of job: plan, lanes and finish as steps, the runs and their jobs, and the relay."""
