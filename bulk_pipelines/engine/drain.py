"""The loop around a worker's slices: on until the job is over, or until there is a reason to leave."""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import psycopg

from bulk_pipelines.database import faults
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import finish, jobs, leases, rescue
from bulk_pipelines.engine.runner import Slice, Worker
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Unavailable

log = logging.getLogger(__name__)

OUTAGE_PATIENCE = 300.0
OUTAGE_PAUSE = 1.0
SHORTEST_PAUSE = 0.01
IDLE_PAUSE = 0.5
"""The longest nap while others work on the job: they may finish at any time."""


Answer = TypeVar("Answer")


class End(StrEnum):
    """Why a worker left its job."""

    FINISHED = "finished"
    PAUSED = "paused"
    STOPPED = "stopped"
    OUT_OF_TIME = "out of time"
    WAITING = "only waiting items are left"


@dataclass(frozen=True)
class Leave:
    end: End
    seconds_to_next: float | None = None


@dataclass(frozen=True)
class Drained:
    """How a worker's stay at its job went."""

    end: End
    worked: int
    seconds_to_next: float | None = None
    """With WAITING: when there is something to do again."""


def drain(
    worker: Worker,
    *,
    seconds: float | None = None,
    patient: bool = True,
    on_slice: Callable[[Slice], None] = lambda _: None,
) -> Drained:
    """`seconds`: leave after this time. Not `patient`: leave, instead of waiting, when only waiting items are left."""
    worker.leave_at = deadline = None if seconds is None else worker.clock() + seconds
    worked = 0
    with little_garbage():
        while True:
            slice_ = outlasting_outages(worker, lambda: worker.run_once(deadline))
            worked += slice_.tally.total
            if slice_.idle:
                reason = outlasting_outages(worker, lambda: look_around(worker, patient))
            else:
                on_slice(slice_)
                reason = None
            if reason is None and worker.stop_asked.is_set():
                reason = Leave(End.STOPPED)
            if reason is None and deadline is not None and worker.clock() >= deadline:
                reason = Leave(End.OUT_OF_TIME)
            if reason is not None:
                return Drained(reason.end, worked, reason.seconds_to_next)


@contextmanager
def little_garbage() -> Iterator[None]:
    """What the process has already is left out of the collector's rounds: thousands of leases a second make it go round
    often, and a tenth of the worker's time would go into looking at the same modules again."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def look_around(worker: Worker, patient: bool) -> Leave | None:
    """Nothing could be claimed: rescue what others lost, end the job if it can end, else wait a little."""
    worker.settler.drain()
    if rescue.run_once(worker.pool, worker.kinds, worker.random, worker.job.job_id).items:
        return None
    job = finish.attempt(worker.pool, worker.kinds, worker.job.job_key)
    if job.status is JobState.CANCELLED and job.open_items:
        # A claim that the cancel met kept its items from it, and gave them back as they were.
        jobs.cancel_waiting(worker.pool, job.job_id)
    if job.finished:
        return Leave(End.FINISHED)
    if job.status is not JobState.RUNNING:
        return Leave(End.PAUSED)
    with transaction(worker.pool) as connection:
        wait = leases.seconds_to_next(connection, job.job_id)
    if not patient and job.retry_wait_items and job.retry_wait_items == job.open_items:
        return Leave(End.WAITING, max(wait or 0.0, 0.0))
    worker.stop_asked.wait(IDLE_PAUSE if wait is None else min(IDLE_PAUSE, max(wait, SHORTEST_PAUSE)))
    return None


def outlasting_outages(worker: Worker, step: Callable[[], Answer]) -> Answer:
    """The step's answer, tried again while the database is away."""
    deadline = worker.clock() + OUTAGE_PATIENCE
    while True:
        try:
            return step()
        except (Unavailable, psycopg.OperationalError) as error:
            lasts = isinstance(error, psycopg.Error) and not faults.passes(error)
            if lasts or worker.clock() > deadline or worker.stop_asked.is_set():
                raise
            log.warning("worker %s waits for the database: %s", worker.name, error)
            worker.stop_asked.wait(OUTAGE_PAUSE)
