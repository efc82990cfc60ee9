"""`bulk up` runs Dagster's UI, its daemon and the code server on one PostgreSQL; they start and stop together."""
