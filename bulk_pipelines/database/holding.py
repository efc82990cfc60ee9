"""Holding what a statement reads until it is read in one snapshot.

TRUNCATE, and an ALTER TABLE that rewrites its table, leave nothing for a snapshot that was taken before they were
committed: neither the rows that were there nor those that are there now. A transaction that takes its snapshot and then
waits for such a change would read an empty table. So whatever it reads is locked before it has a snapshot.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from bulk_pipelines.database import namespaces, pool
from bulk_pipelines.database.pool import Connection

PATIENCE = "SET LOCAL lock_timeout = '10s'"
"""Whoever changes a table waits for those who hold it, and lets nobody else have it meanwhile. Without a limit, they
could wait for each other for ever."""


@contextmanager
def held(
    url: str, statement: str, waiting: Callable[[Connection], AbstractContextManager[object]] = nullcontext
) -> Iterator[None]:
    """Hold all tables that a SELECT of people reads, for as long as the block lasts. Within the block, a transaction
    takes its snapshot and plans the SELECT, and holds the tables itself from then on. `waiting` makes a context for the
    time in which the connection waits for others."""
    with pool.single(url, application="bulk hold") as session, session.transaction():
        session.execute("SET TRANSACTION READ ONLY")
        session.execute(PATIENCE.encode())
        namespaces.turn_to_theirs(session)
        with waiting(session):
            session.execute(f"EXPLAIN {statement}".encode(), prepare=True)  # what is prepared is one statement
        yield
