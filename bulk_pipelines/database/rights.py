"""The rights of roles of PostgreSQL: those that an installation needs to grant, and those that the role of a session
lacks, told before they are needed.

An installation has an owner, who migrates; workers, who run lanes, sensors and the API; and readers, who look at jobs,
metrics and tables.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from psycopg import sql

from bulk_pipelines.database import moving, queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.database.session import own_schema
from bulk_pipelines.errors import InvalidInput


class Role(StrEnum):
    OWNER = "owner"
    WORKER = "worker"
    READER = "reader"


SECRET: Mapping[str, tuple[str, ...]] = {
    "api_key": ("key_id", "owner", "scope", "created_at", "expires_at", "revoked_at", "last_used_at"),
    "console_session": (),
    "cursor_key": (),
    "import_file": ("job_id", "number", "source", "size", "sha256", "base_line", "duplicate", "note", "archive"),
    "subscription": ("subscription_id", "owner", "all_owners", "types", "created_at"),
    "upload": ("upload_id", "owner", "job_key", "name", "state", "bytes", "length", "created_at", "expires_at"),
}
"""Tables with secrets, such as hashes of keys and addresses with passwords: each with the columns that a reader may
read."""


def statements(role: Role, name: str, database: str, dagster: str) -> str:
    """Return the SQL that gives the role `name` of PostgreSQL the rights of an owner, a worker or a reader, as one
    transaction. Rights on the tables of people are for their owners to grant."""
    if not name.strip() or "\0" in name:
        raise InvalidInput("name", "name a role of PostgreSQL")
    lines = {Role.OWNER: owner, Role.WORKER: worker, Role.READER: reader}[role]()
    named = {
        "role": sql.Identifier(name),
        "own": sql.Identifier(own_schema()),
        "dagster": sql.Identifier(dagster),
        "database": sql.Identifier(database),
    }
    said = [sql.as_string(sql.SQL(line).format(**named)) + ";" for line in ("BEGIN", *lines, "COMMIT")]
    return "\n".join(said) + "\n"


def owner() -> list[str]:
    """Return what the owner of the database runs before the first `bulk migrate`."""
    return [
        "GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {role}",
        "CREATE SCHEMA IF NOT EXISTS {own} AUTHORIZATION {role}",
        "CREATE SCHEMA IF NOT EXISTS {dagster} AUTHORIZATION {role}",
    ]


def worker() -> list[str]:
    """Return what the owner of the tables runs after the first `bulk migrate`. Tables of later migrations are included,
    if the same role makes them. A worker makes tables for imports under way."""
    lines = ["GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {role}"]
    for schema in ("{own}", "{dagster}"):
        lines += [
            f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {{role}}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {{role}}",
            f"GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {{role}}",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {{role}}",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT USAGE, SELECT, UPDATE ON SEQUENCES TO {{role}}",
        ]
    return [*lines, f"REVOKE INSERT, UPDATE, DELETE ON {{own}}.{moving.MARKS} FROM {{role}}"]


def reader() -> list[str]:
    """Return what the owner of the tables runs after each `bulk migrate` that has made tables."""
    lines = [
        "GRANT CONNECT ON DATABASE {database} TO {role}",
        "GRANT USAGE ON SCHEMA {own} TO {role}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA {own} TO {role}",
        "GRANT USAGE ON SCHEMA {dagster} TO {role}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA {dagster} TO {role}",
    ]
    for table, columns in SECRET.items():
        lines.append(f"REVOKE SELECT ON {{own}}.{table} FROM {{role}}")
        if columns:
            lines.append(f"GRANT SELECT ({', '.join(columns)}) ON {{own}}.{table} TO {{role}}")
    return lines


def missing(connection: Connection, tables: Sequence[str], sequences: Sequence[str]) -> list[str]:
    """Return what the role may not do with these tables and sequences and in the database: words behind "may not"."""
    values = {"tables": list(tables), "sequences": list(sequences)}
    found = [said for (said,) in connection.execute(queries.text("rights", "missing"), values)]
    return found + missing_to_try(connection)


def missing_to_try(connection: Connection) -> list[str]:
    """Return which of the rights is missing that one needs to find out which rows a table refuses."""
    return [said for (said,) in connection.execute(queries.text("rights", "missing_to_try"))]
