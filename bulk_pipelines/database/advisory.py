"""Locks that PostgreSQL holds for a session. They are gone when the process ends, however it ends."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import single


@contextmanager
def held(pool: Engine, name: str) -> Iterator[bool]:
    """Try to take the lock of this name for as long as the block lasts, and yield whether it could be had. Nobody waits
    for it.

    The lock has a session of its own, which is never idle inside a transaction, so the block may take long.
    """
    with single(pool.url.render_as_string(hide_password=False), application="bulk lock") as session:
        row = session.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [name]).fetchone()
        ours = bool(row and row[0])
        try:
            yield ours
        finally:
            if ours:
                # Closing the session is not enough, because a pooler may keep it for another client.
                with suppress(psycopg.Error):
                    session.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [name])
