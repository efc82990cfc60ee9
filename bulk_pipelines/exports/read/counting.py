"""Counting an export's rows in its snapshot by a query of its own, because ADBC does not pass on how many rows
PostgreSQL said it had sent. The connection that planned the export counts while others read."""

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
    """The count of an export's rows. `start` begins it in a thread, `check` waits for it, and `stop` ends it early. It
    calls `done` at its end, which gives the connection back."""

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
                # The count needs no workers of its own: it has as much time as the readers take to read.
                self.connection.execute("SET LOCAL max_parallel_workers_per_gather = 0")
                self.rows = single(self.connection, self.statement.encode())
            self.done()
        except BaseException as error:  # noqa: BLE001 - who asks for the count raises it
            self.failure = error

    def check(self, rows: int) -> None:
        """Wait for the count, and raise `Unavailable` if it is another number than `rows`."""
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
