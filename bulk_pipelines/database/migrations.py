"""The schema consists of numbered files of plain SQL, which yoyo applies.

yoyo guards itself with a row in a table, which a killed process leaves behind, and marks a migration as applied in a
second transaction. Here an advisory lock of the working connection is the guard, and a migration and its mark commit
together.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

import psycopg
from yoyo import read_migrations
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend
from yoyo.connections import parse_uri
from yoyo.migrations import Migration, MigrationList, default_migration_table

from bulk_pipelines.database import pool, session
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import BulkError, Unavailable
from bulk_pipelines.settings import shipped

MIGRATIONS = shipped("sql/migrations")
LOCK = 0x62756C6B  # "bulk": the advisory lock that one migrating process holds
MADE = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (\w+)", re.MULTILINE)
PATIENCE = "60s"
"""How long a migration waits for a lock. While it waits for a table, everybody who asks for the table after it waits,
too."""


@dataclass(frozen=True)
class State:
    """The names of the migrations that are applied, that still have to be applied, and that are applied but unknown
    here, because a newer version of this program applied them."""

    applied: list[str]
    pending: list[str]
    unknown: list[str]


class Backend(PostgresqlPsycopgBackend):  # type: ignore[misc]
    """A backend of yoyo that works on a connection it is given."""

    def __init__(self, connection: Connection) -> None:
        self.given = connection
        super().__init__(parse_uri("postgresql+psycopg:///"), default_migration_table)

    def connect(self, _dburi: object) -> Connection:
        return self.given

    @contextmanager
    def lock(self, _timeout: float = 0) -> Iterator[None]:
        yield  # the advisory lock is held already

    def apply_one(self, migration: Migration) -> None:
        with self.transaction():
            migration.process_steps(self, "apply")
            self.mark_one(migration, log=False)


def apply(url: str, directory: Path = MIGRATIONS) -> list[str]:
    """Bring the database to the newest schema, and return the names of the migrations that were applied now. Many
    processes may do it at once."""
    with backend(url) as yoyo, alone(yoyo.connection):
        done = []
        if missing(yoyo, directory):
            refuse_closed_schema(yoyo.connection)
            refuse_second_home(yoyo, url)
            yoyo.ensure_internal_schema_updated()
            for migration in yoyo.to_apply(migrations(directory)):
                apply_one(yoyo, migration)
                done.append(migration.id)
        return done


@contextmanager
def alone(connection: Connection) -> Iterator[None]:
    """Hold the lock that lets one process at a time migrate. The lock is released by name, because a pooler may keep
    the session for another client."""
    connection.execute(f"SET lock_timeout = '{PATIENCE}'".encode())
    try:
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    except psycopg.errors.LockNotAvailable:
        raise Unavailable(
            f"another session has been migrating this database for more than {PATIENCE} "
            f"({holder(connection)}): wait until it is done, or end it by pg_terminate_backend"
        ) from None
    try:
        yield
    finally:
        with suppress(psycopg.Error):
            connection.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def holder(connection: Connection) -> str:
    row = connection.execute(
        "SELECT pid, application_name FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND (classid::bigint << 32) + objid::bigint = %s",
        [LOCK],
    ).fetchone()
    return f"process {row[0]} of the server, {row[1] or 'without a name'}" if row else "it has just ended"


def refuse_closed_schema(connection: Connection) -> None:
    """Refuse to migrate if there is no schema in which this role may make tables."""
    path, role, schema, may_create = connection.execute(
        "SELECT current_setting('search_path'), current_user::text, current_schema()::text,"
        " has_schema_privilege(current_schema(), 'CREATE')"
    ).fetchone() or ("", "", None, None)
    if schema is None:
        raise Unavailable(
            f"there is no schema for the tables: the role {role} can use none of {path}; make one, "
            "or name one as options=-csearch_path=… in BULK_DATABASE_URL"
        )
    if not may_create:
        raise Unavailable(
            f"the role {role} may not make tables in the schema {schema}: let its owner run "
            f'GRANT CREATE ON SCHEMA "{schema}" TO "{role}", or migrate as its owner'
        )


def refuse_second_home(yoyo: Backend, url: str) -> None:
    """Refuse to make the tables a second time when they are in another schema, where an earlier search_path has put
    them. An address that names a search_path asks for that schema, and is not refused."""
    if applied_names(yoyo) or "search_path" in session.named(pool.parsed(url)):
        return
    row = yoyo.connection.execute(
        "SELECT table_schema FROM information_schema.tables WHERE table_name IN (%s, 'job_item', 'rejected_row')"
        " GROUP BY table_schema HAVING count(*) = 3",
        [default_migration_table],
    ).fetchone()
    if row is not None:
        raise Unavailable(
            f"the tables are in the schema {row[0]} of this database, where they are not looked for: "
            f"add options=-csearch_path={row[0]} to the address in BULK_DATABASE_URL"
        )


def pending(url: str, directory: Path = MIGRATIONS) -> list[str]:
    """Return the names of the migrations that this database still needs."""
    return state(url, directory).pending


def state(url: str, directory: Path = MIGRATIONS) -> State:
    """Return which migrations are applied and which are not. This only reads."""
    with backend(url) as yoyo:
        known = [migration.id for migration in migrations(directory)]
        applied = applied_names(yoyo)
    return State(
        applied=[name for name in known if name in applied],
        pending=[name for name in known if name not in applied],
        unknown=sorted(applied - set(known)),
    )


@cache
def tables(directory: Path = MIGRATIONS) -> frozenset[str]:
    """Return the names of the tables that the migrations make."""
    return frozenset(
        name for path in directory.glob("*.sql") for name in MADE.findall(path.read_text(encoding="utf-8"))
    )


def missing(yoyo: Backend, directory: Path) -> bool:
    """Whether there is a migration to apply. Finding that out needs fewer rights than applying it."""
    return not {migration.id for migration in migrations(directory)} <= applied_names(yoyo)


@contextmanager
def backend(url: str) -> Iterator[Backend]:
    connection = pool.single(url, application="bulk migrate")
    try:
        yield Backend(connection)
    except psycopg.Error as error:
        if connection.closed:
            raise pool.unavailable(error, pool.parsed(url)) from error
        raise Unavailable(f"the database's schema cannot be used: {pool.reason(error)}") from error
    finally:
        connection.close()


def apply_one(yoyo: Backend, migration: Migration) -> None:
    try:
        with redirect_stdout(StringIO()):  # yoyo prints what a SELECT in a migration returns
            yoyo.apply_one(migration)
    except psycopg.Error as error:
        if yoyo.connection.closed:
            raise
        said = f"migration {migration.id} failed and left nothing behind: {pool.reason(error)}"
        if isinstance(error, psycopg.errors.LockNotAvailable):
            said += f" (others have been at work on its tables for {PATIENCE}: end or pause them, and migrate again)"
        raise BulkError(said) from error


def migrations(directory: Path) -> MigrationList:
    found = read_migrations(str(directory))
    return found.replace(sorted(found, key=lambda migration: str(migration.id)))


def applied_names(yoyo: Backend) -> set[str]:
    connection = yoyo.connection
    (table,) = connection.execute("SELECT to_regclass(%s)", [default_migration_table]).fetchone()
    if table is None:
        return set()
    rows = connection.execute(f"SELECT migration_id FROM {default_migration_table}").fetchall()
    return {name for (name,) in rows}
