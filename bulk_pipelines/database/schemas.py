"""Schemas beside the one of the data."""

import psycopg
from psycopg import sql

from bulk_pipelines.database import pool
from bulk_pipelines.errors import Unavailable


def ensure(url: str, name: str, timeout: int) -> None:
    """Make the schema, if somebody with more rights has not made it before."""
    with pool.single(url, timeout=timeout) as connection:
        if exists(connection, name):
            return
        try:
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(name)))
        except psycopg.errors.UniqueViolation:
            pass  # another process has made it at the same moment
        except psycopg.errors.InsufficientPrivilege:
            role = connection.info.user
            raise Unavailable(
                f"the role {role} may not make the schema {name}: let the database's owner run "
                f'CREATE SCHEMA {name} AUTHORIZATION "{role}"'
            ) from None


def exists(connection: psycopg.Connection[tuple[object, ...]], name: str) -> bool:
    """Whether the schema is there. One that this role may not use is refused."""
    row = connection.execute(
        "SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE') FROM pg_namespace"
        " WHERE nspname = %s",
        [name],
    ).fetchone()
    if row is not None and not row[0]:
        role = connection.info.user
        raise Unavailable(
            f"the role {role} may not use the schema {name}: let its owner run "
            f'GRANT USAGE, CREATE ON SCHEMA {name} TO "{role}"'
        )
    return row is not None
