"""Whole imports by several lanes in this process, to which something may happen at any of their transactions."""

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import WrongState
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.retry import Backoff, RetryPolicy
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.errors import Conflict, ErrorClass
from bulk_pipelines.imports import winding_up, work
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.reconcile import first_wins, last_wins
from bulk_pipelines.imports.records import blocks
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.whole_imports import batches_of, kinds_by

AT_ONCE = {error_class: Backoff(0.001, 0.001) for error_class in ErrorClass}


def hasty(attempts: int, rows: int, not_loaded: Collection[int] = ()) -> Kinds:
    """Return kinds of imports whose batches have so many rows, and in which a range that fails is tried again at once,
    and buried after so many attempts. Every block fails that holds one of the lines `not_loaded`, as if it could not be
    written."""

    def loading(read: work.Read) -> None:
        if set(not_loaded) & set(read.block.spans.lines.tolist()):
            raise RuntimeError("it cannot be written")

    retry = RetryPolicy(max_attempts=attempts, max_deaths=100, backoffs=AT_ONCE)
    return Kinds(replace(kind, retry=retry) for kind in kinds_by(batches_of(rows), loading).values())


@dataclass(frozen=True)
class Sizes:
    """The sizes of ranges in bytes, of batches in rows, and of the steps of reading and cutting in bytes; and how many
    lanes there are."""

    range_bytes: int
    rows: int
    step: int
    lanes: int


@contextmanager
def small(sizes: Sizes) -> Iterator[None]:
    with (
        patch.object(planning, "RANGE_BYTES", sizes.range_bytes),
        patch.object(ranges, "BLOCK", sizes.step),
        patch.object(blocks, "LEAST_READ", sizes.step),
        patch.object(blocks, "FIRST_GUESS", 1),
        patch.object(first_wins, "AT_ONCE", sizes.rows),
        patch.object(last_wins, "AT_ONCE", sizes.rows),
        patch.object(drain, "IDLE_PAUSE", 0.01),
        patch("bulk_pipelines.engine.worker.standing.LOOK_SECONDS", 0.0),
    ):
        yield


class Killed(Exception):
    """Raised in place of every further transaction of a process that is killed."""


class Pool:
    """The pool of a process to which something happens when it begins the transaction with the number `at`. So it
    happens between two transactions, whatever the process was doing. If it happened within a transaction, that would
    come to the same, because the transaction would be rolled back."""

    def __init__(self, engine: Engine, at: int, happen: Callable[[], None]) -> None:
        self.engine = engine
        self.url = engine.url
        self.left = at
        self.happen = happen
        self.lock = threading.Lock()
        self.dead = False

    def raw_connection(self) -> Any:
        with self.lock:
            if self.dead:
                raise Killed
            self.left -= 1
            if not self.left:
                self.dead = self.happens()
            if self.dead:
                raise Killed
        return self.engine.raw_connection()

    def happens(self) -> bool:
        """Let it happen. Return whether that kills the process."""
        try:
            self.happen()
        except Killed:
            return True
        return False


def process(pool: Any, engine: Engine, job: Job, sizes: Sizes, kinds: Kinds) -> None:
    """Plan the job if nobody has, and work it in several lanes until there is nothing to do, or the process dies."""
    if refreshed(engine, job).planned_at is None:
        planning.plan(pool, job)

    def lane() -> None:
        with Worker(pool, kinds, refreshed(engine, job)) as worker:
            drain.drain(worker)

    with ThreadPoolExecutor(sizes.lanes) as executor:
        for future in [executor.submit(lane) for _ in range(sizes.lanes)]:
            future.result(timeout=120)


def killed_process(engine: Engine, job: Job, sizes: Sizes, kinds: Kinds, at: int) -> None:
    """Run a process that dies when it begins the transaction with the number `at`; then all leases of the job run
    out."""

    def die() -> None:
        raise Killed

    pool = Pool(engine, at, die)
    try:
        process(pool, engine, job, sizes, kinds)
    except Exception:
        if not pool.dead:
            raise
    with transaction(engine) as connection:
        held = connection.execute("SELECT item_id FROM job_item WHERE job_id = %s", [job.job_id]).fetchall()
        engine_jobs.run_out(connection, [item_id for (item_id,) in held])


def disturbed_process(
    engine: Engine, job: Job, sizes: Sizes, kinds: Kinds, at: int, event: Callable[[], object]
) -> None:
    """Run a process while `event` pauses or cancels the job, if the job is not over by then."""

    def happen() -> None:
        with suppress(WrongState):
            event()

    with suppress(Conflict):  # it was cancelled before it was planned
        process(Pool(engine, at, happen), engine, job, sizes, kinds)


def ended(engine: Engine, job: Job) -> Job:
    """Wind the job up if it ended before its time, and return it."""
    winding_up.wind_up(engine, job.job_key)
    return refreshed(engine, job)


def refreshed(engine: Engine, job: Job) -> Job:
    with transaction(engine) as connection:
        return jobs.find(connection, job.job_key)
