"""What Dagster remembers of what is over, and for how long."""
