"""Pools that listen: a test does something, or raises an error, before a statement goes to the server. So no function
of the product has to be replaced for something to happen in the middle of it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from bulk_pipelines.database import pool

Heard = Callable[[str], None]
"""A listener, which is told the text of each statement."""


def cursor_that_tells(heard: Heard) -> type[psycopg.Cursor[Any]]:
    class Listening(psycopg.Cursor[Any]):
        def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
            heard(self.written(query))
            return super().execute(query, *arguments, **options)

        def copy(self, statement: Any, *arguments: Any, **options: Any) -> Any:
            heard(self.written(statement))
            return super().copy(statement, *arguments, **options)

        def written(self, query: Any) -> str:
            if isinstance(query, sql.Composable):
                return query.as_string(self.connection)
            return query.decode() if isinstance(query, bytes) else str(query)

    return Listening


@contextmanager
def listening(engine: Engine, heard: Heard) -> Iterator[Engine]:
    """Provide another pool on the same database, which tells of each statement before it is sent."""
    told = cursor_that_tells(heard)
    made = pool.connect(engine.url.render_as_string(hide_password=False), application="test")

    @event.listens_for(made, "connect")
    def connected(connection: psycopg.Connection[Any], _record: object) -> None:
        connection.cursor_factory = told

    try:
        yield made
    finally:
        made.dispose()


@contextmanager
def listening_everywhere(heard: Heard) -> Iterator[None]:
    """Let every pool of this process tell of its statements: for code that makes its pool itself, as Dagster's steps
    do. Those that `heard` sends itself are not told."""
    here = threading.local()

    def told(statement: str) -> None:
        if not getattr(here, "busy", False):
            here.busy = True
            try:
                heard(statement)
            finally:
                here.busy = False

    cursor = cursor_that_tells(told)

    def lent(connection: object, _record: object, _lent: object) -> None:
        if isinstance(connection, psycopg.Connection):  # Dagster has pools of SQLite, too
            connection.cursor_factory = cursor

    def returned(connection: object, _record: object) -> None:
        if isinstance(connection, psycopg.Connection):
            connection.cursor_factory = psycopg.Cursor

    event.listen(Pool, "checkout", lent)
    event.listen(Pool, "checkin", returned)
    try:
        yield
    finally:
        event.remove(Pool, "checkout", lent)
        event.remove(Pool, "checkin", returned)


def before(words: str, happen: Callable[[], object], *, number: int = 1) -> Heard:
    """Do something once: before the statement with this number of those that have these words."""
    seen = 0

    def heard(statement: str) -> None:
        nonlocal seen
        if words in statement:
            seen += 1
            if seen == number:
                happen()

    return heard
