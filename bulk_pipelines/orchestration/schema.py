"""Dagster keeps its runs, events and schedules in the same PostgreSQL as the data, in a schema of its own."""

SCHEMA = "dagster"

APPLICATION = "dagster storage"
"""The application name that marks the sessions of this storage, among those that code of users may open."""
