"""What handlers count while they work. It is written in a transaction that settles items, so a job's counts outlive the
processes that made them."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.errors import Unavailable

Sums = Mapping[tuple[str, ...], tuple[float, ...]]
"""What was counted, by the names that it was counted under."""
WriteSums = Callable[[Connection, int, Sums], None]
"""Adds sums to what the database has of a job."""


class Counting:
    """The sums of one worker that are not written yet. All its threads use it."""

    def __init__(self, job_id: int, write: WriteSums | None) -> None:
        self.job_id = job_id
        self.write_sums = write
        self.lock = threading.Lock()
        self.sums: dict[tuple[str, ...], tuple[float, ...]] = {}

    def add(self, names: tuple[str, ...], *amounts: float) -> None:
        """Count so much more under these names."""
        with self.lock:
            before = self.sums.get(names, (0.0,) * len(amounts))
            self.sums[names] = tuple(a + b for a, b in zip(before, amounts, strict=True))

    def take(self) -> Sums:
        """Return all sums, to be written now. Whoever cannot write them gives them back."""
        with self.lock:
            taken, self.sums = self.sums, {}
        return taken

    def give_back(self, taken: Sums) -> None:
        for names, amounts in taken.items():
            self.add(names, *amounts)

    def write(self, connection: Connection, taken: Sums) -> None:
        if taken and self.write_sums is not None:
            self.write_sums(connection, self.job_id, taken)

    def write_rest(self, pool: Engine) -> None:
        """Write what was counted since the last batch: its items may be somebody else's by now."""
        if taken := self.take():
            with suppress(Unavailable, psycopg.OperationalError), transaction(pool) as connection:
                self.write(connection, taken)
