"""What names mean in SQL. What this program makes stands in a schema of its own, in which its sessions look first: so
its queries name it by bare names, and nothing of anybody else can come before it.

What people have written (their tables and types, queries and expressions, and the triggers that writing to their tables
fires) must mean what it means to them, even where one of our tables has the same name. So for that a session looks
where its address says, and ours is named with its schema.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from bulk_pipelines.database.pool import TURNED, Connection
from bulk_pipelines.database.session import own_schema
from bulk_pipelines.errors import InvalidInput

NOW = "SELECT pg_catalog.current_setting('search_path')"
LATER = "SELECT pg_catalog.set_config('search_path', %s, false)"
THEIRS = "pg_catalog.set_config('search_path', pg_catalog.current_setting('bulk_pipelines.search_path'), {})"
TURN = f"SELECT {THEIRS.format('true')}"
"""Lets names mean what they mean to people until the end of the transaction."""
PART = re.compile(r'"((?:[^"\0]|"")+)"|([^".\0]+)')


def own(name: str) -> sql.Identifier:
    """Name something of ours where names mean what they mean to people."""
    return sql.Identifier(own_schema(), name)


def turn_to_theirs(connection: Connection) -> None:
    """Let names mean what they mean to people until the end of the transaction."""
    TURNED.add(connection)
    connection.execute(TURN.encode())


def turn_session_to_theirs(connection: Connection) -> None:
    """Let names mean what they mean to people until the connection is given back to its pool."""
    TURNED.add(connection)
    with connection.transaction():
        connection.execute(f"SELECT {THEIRS.format('false')}".encode())


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


def parts_of(table: str) -> tuple[str, ...]:
    """Return the name of a table, or those of its schema and of the table, as somebody wrote them: `table` or
    `schema.table`. In double quotes a name may hold anything."""
    found, place = [], 0
    while (part := PART.match(table, place)) is not None:
        found.append(part[2] if part[1] is None else part[1].replace('""', '"'))
        place = part.end() + 1
        if place > len(table) and len(found) <= 2:
            return tuple(found)
        if table[part.end() : place] != ".":
            break
    raise InvalidInput("table", f"{table[:200]!r} is no name of a table: table, or schema.table")
