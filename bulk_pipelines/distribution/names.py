"""The name of the kind of job that distributions are."""

NAME = "distribution"
