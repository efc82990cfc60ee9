"""Locks that PostgreSQL holds for a session: gone with the process, however it ends."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import single


@contextmanager
def held(pool: Engine, name: str) -> Iterator[bool]:
    """Whether the lock of this name is ours for as long as the block lasts; nobody waits for it.

    On a session of its own, which is never idle inside a transaction, so the block may take long.
    """
    with single(pool.url.render_as_string(hide_password=False), application="bulk lock") as session:
        row = session.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [name]).fetchone()
        ours = bool(row and row[0])
        try:
            yield ours
        finally:
            if ours:
                # By name, too: a pooler may keep the session for somebody else.
                with suppress(psycopg.Error):
                    session.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [name])
