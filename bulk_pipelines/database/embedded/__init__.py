"""The embedded PostgreSQL server of one installation, which all its processes share."""
