"""Settlers at work, and what happens to their database."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, PoolProxiedConnection

from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Done, Outcome
from bulk_pipelines.engine.worker.settler import Settler
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.errors import Unavailable
from bulk_pipelines_tests.scenes.engine_jobs import decided, found

NEVER = 3_600.0
LEASE = 30.0


@contextmanager
def at_work(pool: Engine, job: Job, **limits: Any) -> Iterator[Settler]:
    """Provide a settler, which is stopped at the end unless it has failed."""
    made = Settler(pool, job.job_id, lambda: LEASE, NEVER, SettlerLimits(**limits))
    try:
        yield made
    finally:
        if made.failure is None:
            made.stop()


def succeeded(pool: Engine, job: Job) -> int:
    return found(pool, job).succeeded_items


def add(settler: Settler, given: Sequence[Lease], outcome: Outcome | None = None) -> None:
    for lease in given:
        settler.add(decided(lease, outcome or Done({"term": lease.lease_term})))


class AnswerLost:
    """A pool whose connection is lost once: when the first transaction is committed, before anybody hears of it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.url = engine.url
        self.transactions = 0

    def raw_connection(self) -> PoolProxiedConnection:
        self.transactions += 1
        connection = self.engine.raw_connection()
        return Losing(connection) if self.transactions == 1 else connection  # type: ignore[return-value]


class Losing:
    """A connection that is found to be lost when it is given back."""

    def __init__(self, connection: PoolProxiedConnection) -> None:
        self.connection = connection
        self.driver_connection = connection.driver_connection

    def close(self) -> None:
        self.connection.close()
        raise Unavailable("the connection is gone")
