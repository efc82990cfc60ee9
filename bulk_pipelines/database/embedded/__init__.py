"""The embedded PostgreSQL server of one installation, shared by all its processes."""
