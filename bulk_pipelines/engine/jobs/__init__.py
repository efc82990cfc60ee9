"""The life of a job: submitted, offered for a launch, paused, redriven, ended."""
