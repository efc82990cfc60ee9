"""What a person does to a job from Dagster's UI: pause, resume, cancel, redrive."""
