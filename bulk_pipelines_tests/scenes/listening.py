"""A pool that listens: a test does something, or raises an error, before a statement goes to the server. So no function
of the product has to be replaced for something to happen in the middle of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Engine, event

from bulk_pipelines.database import pool

Heard = Callable[[str], None]
"""It is told the text of each statement."""


@contextmanager
def listening(engine: Engine, heard: Heard) -> Iterator[Engine]:
    """Provide another pool on the same database, which tells of each statement before it is sent."""

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

    made = pool.connect(engine.url.render_as_string(hide_password=False), application="test")

    @event.listens_for(made, "connect")
    def told(connection: psycopg.Connection[Any], _record: object) -> None:
        connection.cursor_factory = Listening

    try:
        yield made
    finally:
        made.dispose()


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
