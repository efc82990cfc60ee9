"""The schema, as numbered files of plain SQL, applied by yoyo.

yoyo guards itself with a row in a table, which a killed process leaves behind, and marks a migration in a second
transaction. Here an advisory lock of the working connection is the guard, and a migration and its mark commit together.
"""

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
from yoyo import read_migrations
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend
from yoyo.connections import parse_uri
from yoyo.migrations import Migration, MigrationList, default_migration_table

from bulk_pipelines.database import pool
from bulk_pipelines.errors import BulkError
from bulk_pipelines.settings import CHECKOUT

MIGRATIONS = CHECKOUT / "sql" / "migrations"
LOCK = 0x62756C6B  # "bulk": the advisory lock that one migrating process holds


@dataclass(frozen=True)
class State:
    """The names of the migrations: applied, still to apply, and applied by a newer version of this program."""

    applied: list[str]
    pending: list[str]
    unknown: list[str]


class Backend(PostgresqlPsycopgBackend):  # type: ignore[misc]
    """yoyo's work on a connection of ours."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.given = connection
        super().__init__(parse_uri("postgresql+psycopg:///"), default_migration_table)

    def connect(self, _dburi: object) -> psycopg.Connection[Any]:
        return self.given

    @contextmanager
    def lock(self, _timeout: float = 0) -> Iterator[None]:
        yield  # the advisory lock is held already

    def apply_one(self, migration: Migration) -> None:
        with self.transaction():
            migration.process_steps(self, "apply")
            self.mark_one(migration, log=False)


def apply(url: str, directory: Path = MIGRATIONS) -> list[str]:
    """Bring the database to the newest schema; the names of what was applied now. Many processes may do it at once."""
    with backend(url) as yoyo:
        yoyo.connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        yoyo.ensure_internal_schema_updated()
        done = []
        for migration in yoyo.to_apply(migrations(directory)):
            apply_one(yoyo, migration)
            done.append(migration.id)
        return done


def pending(url: str, directory: Path = MIGRATIONS) -> list[str]:
    """The names of the migrations that this database still needs."""
    return state(url, directory).pending


def state(url: str, directory: Path = MIGRATIONS) -> State:
    """What is applied and what is not. Only reads."""
    with backend(url) as yoyo:
        known = [migration.id for migration in migrations(directory)]
        applied = applied_names(yoyo)
    return State(
        applied=[name for name in known if name in applied],
        pending=[name for name in known if name not in applied],
        unknown=sorted(applied - set(known)),
    )


@contextmanager
def backend(url: str) -> Iterator[Backend]:
    connection = pool.single(url, application="bulk migrate")
    try:
        yield Backend(connection)
    except psycopg.Error as error:
        if connection.closed:
            raise pool.unavailable(error, pool.parsed(url)) from error
        raise
    finally:
        connection.close()


def apply_one(yoyo: Backend, migration: Migration) -> None:
    try:
        with redirect_stdout(StringIO()):  # yoyo prints what a SELECT in a migration returns
            yoyo.apply_one(migration)
    except psycopg.Error as error:
        if yoyo.connection.closed:
            raise
        raise BulkError(f"migration {migration.id} failed and left nothing behind: {error}") from error


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
