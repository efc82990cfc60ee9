"""What Dagster keeps of finished work, and for how long."""
