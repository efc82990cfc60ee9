"""PostgreSQL's own count of an export's rows, in its snapshot: taken by the connection that planned it while others
read, for drivers that keep to themselves what PostgreSQL said of the rows they brought."""

import threading
from collections.abc import Callable
from contextlib import suppress

import psycopg

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.exports.read import query
from bulk_pipelines.exports.read.listening import PATIENCE
from bulk_pipelines.exports.read.snapshot import Plan, asked_of, single


class Counting:
    """Begun by `start`; `check` waits for it. `done` gives the connection back. Leaving the context ends it."""

    def __init__(self, connection: Connection, plan: Plan, resource: str, done: Callable[[], None]) -> None:
        self.connection = connection
        self.statement = query.within(plan.count, None)
        self.resource = resource
        self.done = done
        self.thread: threading.Thread | None = None
        self.rows: int | None = None
        self.failure: BaseException | None = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self.count, name="export count", daemon=True)
        self.thread.start()

    def count(self) -> None:
        try:
            with asked_of(self.resource):
                # Others are at work: this has the time that they take.
                self.connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
                self.rows = single(self.connection, self.statement.encode())
            self.done()
        except BaseException as error:  # noqa: BLE001 - who asks for the count raises it
            self.failure = error

    def check(self, rows: int) -> None:
        """Whether so many are all of them."""
        if self.thread is not None:
            self.thread.join()
        if self.failure is not None:
            raise self.failure
        if rows != self.rows:
            raise Unavailable(f"PostgreSQL sent {rows} rows and counted {self.rows}")

    def stop(self) -> None:
        while self.thread is not None and self.thread.is_alive():
            with suppress(psycopg.Error):
                self.connection.cancel_safe(timeout=PATIENCE)
            self.thread.join(PATIENCE)
