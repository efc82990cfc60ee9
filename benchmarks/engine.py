"""One worker process drains 100,000 items that need no work, ours against pgqueuer.

Our worker saves a result for each item. Each side begins with a database of its own on the same server, vacuumed,
analyzed and checkpointed, in a new process that has its connections already; the clock stops when the last item is
settled. pgqueuer is run with each of several settings, and the best of them is the peer.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import asyncpg
import psycopg
import uvloop
from pgqueuer.applications import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver, PsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks import measure
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.outcomes import Done
from bulk_pipelines.engine.worker.drain import End, drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.tools import Tools

ITEMS = 100_000
ROUNDS = 3
ENQUEUED_AT_ONCE = 10_000


def work(lease: Lease, _tools: Tools) -> Done:
    return Done({"n": lease.input["n"]})


KINDS = Kinds([Kind("no-op", work)])


class Setting(NamedTuple):
    """How pgqueuer is run: its driver, the number of its queue managers in the one process, and their batch size."""

    driver: str
    managers: int
    batch_size: int

    def __str__(self) -> str:
        return f"pgqueuer, {self.driver}, {self.managers} manager(s), batches of {self.batch_size}"


SETTINGS = [
    Setting("asyncpg pool", 1, 500),
    Setting("asyncpg pool", 1, 1000),
    Setting("asyncpg pool", 2, 500),
    Setting("asyncpg", 1, 500),
    Setting("psycopg", 1, 500),
]


def in_new_process(measured: Callable[..., float], *arguments: object) -> float:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        return executor.submit(measured, *arguments).result()


def ours(running: Server) -> float:
    """Return how many items our worker finishes in a second."""
    with measure.database(running) as url:
        engine = pool.connect(url)
        with pool.transaction(engine) as connection:
            job = submission.submit(connection, KINDS, submission.Request("no-op", "bench", {})).job
        inputs = ((f"item {number}", {"n": number}) for number in range(ITEMS))
        persist.add_items(engine, job.job_id, inputs, BatchSizer.within(BatchLimits()))
        with pool.transaction(engine) as connection:
            jobs.seal(connection, job.job_id)
            jobs.start(connection, job.job_key)
        engine.dispose()
        measure.settle_down(url)
        seconds = in_new_process(drain_ours, url, job.job_key)
        with pool.single(url) as connection:
            saved = connection.execute(
                "SELECT count(*) FROM job_item WHERE status = 'SUCCEEDED' AND result = input"
            ).fetchone()
            counted = connection.execute("SELECT succeeded_items, status FROM job").fetchone()
        assert saved == (ITEMS,), saved
        assert counted == (ITEMS, "COMPLETED"), counted
        return ITEMS / seconds


def drain_ours(url: str, job_key: str) -> float:
    """Return the seconds in which our worker drains the job."""
    engine = pool.connect(url)
    with pool.transaction(engine) as connection:
        job = jobs.find(connection, job_key)
    begun = time.perf_counter()
    with Worker(engine, KINDS, job) as worker:
        drained = drain(worker)
    seconds = time.perf_counter() - begun
    assert drained.end is End.FINISHED
    return seconds


def pgqueuer(running: Server, setting: Setting) -> float:
    """Return how many items pgqueuer finishes in a second."""
    with measure.database(running, migrated=False) as url:
        asyncio.run(enqueue(url))
        measure.settle_down(url)
        seconds = in_new_process(drain_pgqueuer, url, setting)
        with pool.single(url) as connection:
            left = connection.execute("SELECT count(*) FROM pgqueuer").fetchone()
            logged = connection.execute("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'").fetchone()
        assert left == (0,), left
        assert logged == (ITEMS,), logged
        return ITEMS / seconds


async def enqueue(url: str) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    for first in range(0, ITEMS, ENQUEUED_AT_ONCE):
        numbers = range(first, first + ENQUEUED_AT_ONCE)
        payloads: list[bytes | None] = [b'{"n": %d}' % number for number in numbers]
        await queries.enqueue(["no-op"] * len(payloads), payloads, [0] * len(payloads))
    await connection.close()


def drain_pgqueuer(url: str, setting: Setting) -> float:
    """Return the seconds in which pgqueuer drains its queue."""
    return uvloop.run(drained_by_pgqueuer(url, setting))


async def drained_by_pgqueuer(url: str, setting: Setting) -> float:
    drivers = [await driver(url, setting.driver) for _ in range(setting.managers)]
    queries = [Timed(each) for each in drivers]
    managers = [PgQueuer(each, queries=timed) for each, timed in zip(drivers, queries, strict=True)]
    for manager in managers:
        manager.entrypoint("no-op")(work_pgqueuer)
    begun = time.perf_counter()
    # The timeout matters only when the queue is empty; a short one ends the drain sooner.
    run = partial(
        PgQueuer.run,
        batch_size=setting.batch_size,
        mode=QueueExecutionMode.drain,
        dequeue_timeout=timedelta(seconds=0.1),
    )
    await asyncio.gather(*(run(manager) for manager in managers))
    return max(timed.settled_at for timed in queries) - begun


async def work_pgqueuer(_job: Job) -> None:
    return None


async def driver(url: str, name: str) -> Any:
    match name:
        case "asyncpg pool":
            return AsyncpgPoolDriver(await asyncpg.create_pool(url, min_size=5, max_size=5))
        case "asyncpg":
            return AsyncpgDriver(await asyncpg.connect(url))
        case _:
            return PsycopgDriver(await psycopg.AsyncConnection.connect(url, autocommit=True))


class Timed(Queries):
    """Queries that note when the last item was settled, where the clock stops: pgqueuer looks at the empty queue for a
    while before it leaves."""

    settled_at = 0.0

    async def log_jobs(self, job_status: list[Any]) -> None:
        await super().log_jobs(job_status)
        self.settled_at = time.perf_counter()


def main() -> None:
    with measure.server() as running:
        sides = [partial(ours, running), *(partial(pgqueuer, running, setting) for setting in SETTINGS)]
        samples = measure.in_turns(sides, ROUNDS)
    measure.show("ours", samples[0], "items/s")
    for setting, theirs in zip(SETTINGS, samples[1:], strict=True):
        measure.show(str(setting), theirs, "items/s")
    best = max(median(theirs) for theirs in samples[1:])
    measure.report("engine-vs-pgqueuer", median(samples[0]), best, "items/s")


if __name__ == "__main__":
    main()
