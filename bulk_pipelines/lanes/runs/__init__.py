"""What a run of Dagster is to the job it works."""
