"""Databases of the tests' own on a server that they share: copies of a template, and dropped many at a time."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import errors

from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines_tests.scenes import sessions

DROPPED_AT_ONCE = 16
"""How many databases are dropped at once. The server writes all that was changed in any database to the disk for each
drop, and only the first of many drops finds something to write."""

over: list[str] = []
"""Databases of tests that have ended."""


def spare_the_disk(server: Server) -> None:
    """Let the server leave it to the system when what it has written reaches the disk. Nothing is lost when the server
    is killed, but only when the machine dies, and no test lets it."""
    with admin(server) as connection:
        if connection.execute("SHOW fsync").fetchone() == ("on",):
            # The log is cut often, because the data may lie in memory.
            for name, value in (("fsync", "off"), ("full_page_writes", "off"), ("max_wal_size", "'512MB'")):
                connection.execute(f"ALTER SYSTEM SET {name} = {value}")
            connection.execute("SELECT pg_reload_conf()")


@contextmanager
def fresh(server: Server, template: str) -> Iterator[str]:
    """Provide the address of a copy of the template, with sessions as SESSIONS wants them."""
    name = f"test_{uuid.uuid4().hex[:16]}"
    with admin(server) as connection:
        # The copy of files takes half the time of a copy through the log, which is for larger databases.
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    with sessions.as_asked(server, name) as url:
        yield url
    with admin(server) as connection, suppress(errors.InvalidCatalogName):  # the test may have dropped it
        close(connection, name)


@contextmanager
def on_a_victim(server: Server) -> Iterator[str]:
    """Provide the address of a migrated database with the samples, on a server that the test may stop and kill."""
    name = f"chaos_{uuid.uuid4().hex[:16]}"
    with admin(server) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = server.url(name)
    migrations.apply(url)
    samples.furnish(url)
    yield url
    with admin(server) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def close(connection: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    """End all that still uses a database, and drop it with the next ones."""
    connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
    over.append(name)
    if len(over) >= DROPPED_AT_ONCE:
        while over:
            connection.execute(f"DROP DATABASE IF EXISTS {over.pop()} WITH (FORCE)")


def admin(server: Server) -> psycopg.Connection[tuple[object, ...]]:
    server.start()  # a test that stopped the server and failed must not take the others with it
    return pool.single(server.url())
