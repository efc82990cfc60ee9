"""Measuring: a process gathers in memory, and adds what it has to the database every few seconds.

A process that is killed loses the last seconds of its numbers, and nothing else: what must not be lost is counted by
the jobs themselves.
"""

import json
import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, ref

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.measures.catalogue import (
    BATCH_ROWS,
    POOL_WAIT,
    TRANSACTIONS,
    WRITE_EWMA,
    WRITE_SECONDS,
    Metric,
)
from bulk_pipelines.errors import Unavailable

log = logging.getLogger(__name__)

WRITE_EVERY = 5.0
"""The fewest seconds between two writes of one process."""
WEIGHT = 0.3
"""The weight of a new value in a mean."""

Series = tuple[Metric, tuple[str, ...]]


@dataclass
class Sum:
    """What was counted or observed of one series since the last write."""

    total: float = 0.0
    buckets: list[int] = field(default_factory=list)

    def add(self, other: "Sum") -> None:
        self.total += other.total
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]


class Measures:
    """What this process has measured and not written yet. All its threads use it."""

    def __init__(self, pool: Engine | None) -> None:
        """Gather measures for the database of this pool. Without a pool nothing is ever written: somebody else reads
        the sums."""
        self.pool = (lambda: None) if pool is None else ref(pool)  # the measures of a pool go with it
        self.lock = threading.Lock()
        self.sums: dict[Series, Sum] = {}
        self.means: dict[Series, float] = {}
        self.changed: set[Series] = set()
        """The means that have changed since the last write."""
        self.written = time.monotonic()

    def count(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Count so many more. Counting none makes the series, so that its first increase is seen."""
        self.add((metric, labels), Sum(by))

    def observe(self, metric: Metric, value: float, *labels: str, times: int = 1) -> None:
        """Observe the same value so many times."""
        if times:
            buckets = [0] * (len(metric.bounds) + 1)
            buckets[bisect_left(metric.bounds, value)] = times
            self.add((metric, labels), Sum(value * times, buckets))

    def add(self, series: Series, more: Sum) -> None:
        with self.lock:
            known = self.sums.get(series)
            if known is None:
                self.sums[series] = more
            else:
                known.add(more)

    def average(self, metric: Metric, value: float, *labels: str) -> None:
        """Take the value into an exponentially weighted mean."""
        series = (metric, labels)
        with self.lock:
            before = self.means.get(series, value)
            self.means[series] = before + WEIGHT * (value - before)
            self.changed.add(series)

    def batch(self, operation: str, rows: int, seconds: float, waited: float) -> None:
        """Note a batch that was committed, and what it cost."""
        self.observe(WRITE_SECONDS, seconds, operation)
        self.observe(POOL_WAIT, waited, operation)
        self.observe(BATCH_ROWS, rows, operation)
        self.average(WRITE_EWMA, seconds, operation)
        self.count(TRANSACTIONS, operation, "committed")
        self.count(TRANSACTIONS, operation, "rolled_back", by=0)

    def rolled_back(self, operation: str) -> None:
        self.count(TRANSACTIONS, operation, "rolled_back")

    def write_if_due(self) -> None:
        if time.monotonic() - self.written >= WRITE_EVERY:
            self.write()

    def write(self) -> None:
        """Add what was measured to the database. When that fails it is kept for the next time: numbers are never a
        reason for work to stop."""
        with self.lock:
            self.written = time.monotonic()
            sums, self.sums = self.sums, {}
            changed, self.changed = self.changed, set()
            means = {series: self.means[series] for series in changed}
        pool = self.pool()
        if pool is None or not (sums or means):
            return
        try:
            with transaction(pool) as connection:
                connection.execute(queries.text("measures", "brief"))
                if sums:
                    connection.execute(queries.text("measures", "add_measures"), {"given": encoded(sums)})
                if means:
                    gauges = {series: Sum(mean) for series, mean in means.items()}
                    connection.execute(queries.text("measures", "set_measures"), {"given": encoded(gauges)})
        except (Unavailable, psycopg.Error) as error:
            log.debug("what was measured is written later: %s", error)
            for series, kept in sums.items():
                self.add(series, kept)
            with self.lock:
                self.changed |= changed


def encoded(sums: Mapping[Series, Sum]) -> str:
    return json.dumps(
        [
            {"name": metric.name, "labels": labels, "total": each.total, "buckets": each.buckets}
            for (metric, labels), each in sums.items()
        ]
    )


LOCK = threading.Lock()
OF_POOLS: "WeakKeyDictionary[Engine, Measures]" = WeakKeyDictionary()


def of(pool: Engine) -> Measures:
    """Return the measures of this process for the database of this pool."""
    with LOCK:
        found = OF_POOLS.get(pool)
        if found is None:
            found = OF_POOLS[pool] = Measures(pool)
        return found


@contextmanager
def written_regularly(pool: Engine) -> Iterator[None]:
    """Write what the process measures every few seconds, as long as the block lasts."""
    over, measured = threading.Event(), of(pool)

    def write() -> None:
        while not over.wait(WRITE_EVERY):
            measured.write()

    thread = threading.Thread(target=write, name="measures", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        measured.write()
