"""What names mean in SQL. What this program makes stands in a schema of its own, in which its sessions look first: so
its queries name it by bare names, and nothing of anybody else can come before it.

What people have written (their tables and types, queries and expressions, and the triggers that writing to their tables
fires) must mean what it means to them, even where one of our tables has the same name. So for that a session looks
where its address says, and ours is named with its schema.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from bulk_pipelines.database.pool import TURNED, Connection
from bulk_pipelines.database.session import own_schema

NOW = "SELECT pg_catalog.current_setting('search_path')"
LATER = "SELECT pg_catalog.set_config('search_path', %s, false)"
THEIRS = "pg_catalog.set_config('search_path', pg_catalog.current_setting('bulk_pipelines.search_path'), {})"
TURN = f"SELECT {THEIRS.format('true')}"
"""Lets names mean what they mean to people until the end of the transaction."""


def own(name: str) -> sql.Identifier:
    """Name something of ours where names mean what they mean to people."""
    return sql.Identifier(own_schema(), name)


def turn_to_theirs(connection: Connection) -> None:
    """Let names mean what they mean to people until the end of the transaction."""
    TURNED.add(connection)
    connection.execute(TURN.encode())


@contextmanager
def theirs(connection: Connection) -> Iterator[psycopg.Transaction]:
    """Open a savepoint in which names mean what they mean to people. If a trigger of theirs sets the `search_path`, and
    does not set it back, this ends with the block, too: otherwise our next statements would find other tables, or
    none."""
    TURNED.add(connection)
    with connection.transaction() as made:
        before = connection.execute(f"{NOW}, {THEIRS.format('false')}".encode()).fetchone()
        assert before is not None, "a setting always has a value"
        yield made
        connection.execute(LATER, before[:1])
