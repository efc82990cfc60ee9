"""Our schema consists of numbered files of plain SQL, which yoyo applies there and nowhere else.

yoyo guards itself with a row in a table, which a killed process leaves behind, and marks a migration as applied in a
second transaction. Here an advisory lock of the working connection is the guard, and a migration and its mark commit
together.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import psycopg
from psycopg import sql
from yoyo import read_migrations
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend
from yoyo.connections import parse_uri
from yoyo.migrations import Migration, MigrationList, default_migration_table

from bulk_pipelines.database import moving, pool, queries, schemas
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.database.session import SCHEMA_FIELD, own_schema
from bulk_pipelines.errors import BulkError, Unavailable
from bulk_pipelines.settings import shipped
from bulk_pipelines.settings.installation import DEFAULT_SCHEMA

MIGRATIONS = shipped("sql/migrations")
LOCK = 0x62756C6B  # "bulk": the advisory lock that one migrating process holds
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
    own = own_schema()
    with backend(url) as yoyo, alone(yoyo.connection):
        done = []
        if missing(yoyo, directory):
            make_ready(yoyo.connection, own, directory)
            # What a migration names is ours, even where a table of people has the same name.
            yoyo.connection.execute("SELECT set_config('search_path', quote_ident(%s), false)", [own])
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


def make_ready(connection: Connection, own: str, directory: Path) -> None:
    """See to it that our schema is there, and has what an older version has made elsewhere."""
    names = [str(migration.id) for migration in migrations(directory)]
    with connection.transaction():
        if not schemas.exists(connection, own):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(own)))
        if has_marks(connection, own):
            return
        home = moving.former_home(connection, names, own)
        refuse_second_home(connection, own, home)
        files = sorted(directory.glob("*.sql"))
        refuse_strangers(connection, own, files)
        if home is not None:
            applied = moving.applied_in(connection, home)
            moving.move(connection, home, own, [each for each in files if each.stem in applied])


def refuse_strangers(connection: Connection, own: str, files: Sequence[Path]) -> None:
    """Refuse a schema in which somebody else has something that has a name of ours."""
    if found := moving.strangers(connection, own, files):
        raise Unavailable(
            f"the schema {own} has something of others that we would make there ({', '.join(found[:10])}): name "
            f"another one as {SCHEMA_FIELD}"
        )


def refuse_second_home(connection: Connection, own: str, home: str | None) -> None:
    """Refuse to make the tables a second time when they are in another schema. A schema that somebody has named
    is what they ask for, and is not refused."""
    row = connection.execute(queries.text("homes", "home_elsewhere"), {"own": own}).fetchone()
    if row is not None and home is None and own == DEFAULT_SCHEMA:
        raise Unavailable(
            f"the tables are in the schema {row[0]} of this database, where they are not looked for: set {SCHEMA_FIELD}"
            f" to {row[0]} if it is ours alone; else add options=-csearch_path={row[0]} to the address in "
            "BULK_DATABASE_URL, and they are moved"
        )


@dataclass(frozen=True)
class Surroundings:
    """Our schema: whether our tables are there, from where `bulk migrate` would move them, what others have put there,
    and which tables of people have the names of ours."""

    own: str
    is_ours: bool
    former: str | None
    others: list[str]
    alike: list[str]


def look_around(url: str, directory: Path = MIGRATIONS) -> Surroundings:
    """Tell what is in the schema in which our tables are, or would be made. Raise `Unavailable` if they could not be
    made there. This only reads."""
    own, files = own_schema(), sorted(directory.glob("*.sql"))
    with backend(url) as yoyo:
        connection = yoyo.connection
        applied_names(connection)
        is_ours = has_marks(connection, own)
        former = None
        if not is_ours:
            schemas.exists(connection, own)
            former = moving.former_home(connection, [each.stem for each in files], own)
            refuse_second_home(connection, own, former)
            refuse_strangers(connection, own, files)
        names = moving.names_of(files)
        others = queries.text("homes", "others_there"), {"own": own, "names": names}
        alike = queries.text("homes", "named_alike"), {"own": own, "names": names, "former": former}
        return Surroundings(
            own,
            is_ours,
            former,
            [name for (name,) in connection.execute(*others)],
            [name for (name,) in connection.execute(*alike)],
        )


def pending(url: str, directory: Path = MIGRATIONS) -> list[str]:
    """Return the names of the migrations that this database still needs."""
    return state(url, directory).pending


def state(url: str, directory: Path = MIGRATIONS) -> State:
    """Return which migrations are applied and which are not. This only reads."""
    with backend(url) as yoyo:
        known = [migration.id for migration in migrations(directory)]
        applied = applied_names(yoyo.connection)
    return State(
        applied=[name for name in known if name in applied],
        pending=[name for name in known if name not in applied],
        unknown=sorted(applied - set(known)),
    )


def missing(yoyo: Backend, directory: Path) -> bool:
    """Whether there is a migration to apply. Finding that out needs fewer rights than applying it."""
    return not {migration.id for migration in migrations(directory)} <= applied_names(yoyo.connection)


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


def applied_names(connection: Connection) -> set[str]:
    own = own_schema()
    row = connection.execute(queries.text("homes", "usable"), {"own": own}).fetchone()
    if row is None:
        return set()
    if not row[0]:
        raise schemas.closed(connection, own)
    return moving.applied_in(connection, own) if has_marks(connection, own) else set()


def has_marks(connection: Connection, own: str) -> bool:
    """Whether there is a table in our schema that marks what is applied. It may be empty, if a process has died."""
    table = sql.Identifier(own, moving.MARKS).as_string(connection)
    return connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone() == (True,)
