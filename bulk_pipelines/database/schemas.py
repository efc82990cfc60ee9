"""Schemas beside the one that holds the data. A role that may make no schema can use one that was made for it."""

from contextlib import suppress

import psycopg
from psycopg import sql

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import Unavailable


def ensure(url: str, name: str, timeout: int) -> None:
    """Make the schema if it is missing."""
    with pool.single(url, timeout=timeout) as connection:
        if exists(connection, name):
            return
        # If two processes find the schema missing, one of them is too late to make it.
        with suppress(psycopg.errors.UniqueViolation):
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(name)))


def check(url: str, name: str, timeout: int) -> None:
    """Refuse a role that can neither use the schema nor make it."""
    with pool.single(url, timeout=timeout) as connection:
        exists(connection, name)


def exists(connection: Connection, name: str) -> bool:
    """Whether the schema is there, and the role may use it. If it is not there, and the role may not make it, or if the
    role may not use it, raise `Unavailable`."""
    row = connection.execute(
        "SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')"
        " FROM pg_namespace WHERE nspname = %s",
        [name],
    ).fetchone()
    if row is not None and row[0]:
        return True
    found = connection.execute(
        "SELECT current_user::text, has_database_privilege(current_database(), 'CREATE')"
    ).fetchone()
    assert found is not None
    role, may_make = found
    if row is not None:
        raise closed(connection, name)
    if not may_make:
        raise Unavailable(
            f"the role {role} may not make the schema {name}: let the database's owner run "
            f'CREATE SCHEMA {name} AUTHORIZATION "{role}"'
        )
    return False


def closed(connection: Connection, name: str) -> Unavailable:
    """Return the error that a role may not use a schema."""
    row = connection.execute("SELECT current_user::text").fetchone()
    assert row is not None
    return Unavailable(
        f"the role {row[0]} may not use the schema {name}: let its owner run "
        f'GRANT USAGE, CREATE ON SCHEMA {name} TO "{row[0]}"'
    )
