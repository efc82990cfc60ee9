"""What a person does to a job from Dagster's UI: pause, resume, cancel, redrive. `definitions` has a job of Dagster for
each."""
