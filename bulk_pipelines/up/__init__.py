"""`bulk up`: Dagster's UI, its daemon and the code server on one PostgreSQL, started and stopped together."""
