"""The life of a job: it is submitted, offered for a launch, paused, redriven and ended."""
