"""The loop around a worker's slices: the worker goes on until its job is over, or until it has a reason to leave."""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeVar

import psycopg

from bulk_pipelines.database import faults
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import leases, rescue
from bulk_pipelines.engine.jobs import end, jobs, telling
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.work import Slice
from bulk_pipelines.errors import Unavailable

log = logging.getLogger(__name__)

OUTAGE_PATIENCE = 300.0
"""How many seconds a worker waits for a database that is away."""
OUTAGE_PAUSE = 1.0
SHORTEST_PAUSE = 0.01
LONGER = 1.125
IDLE_PAUSE = 0.5
"""The longest pause, in seconds, while others work on the job. They may finish at any time, so pauses begin short and
become longer by an eighth: a worker learns of the end soon after it, by the time that it has waited already."""


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
    """A reason to leave a job, and the seconds until there is something to do again."""

    end: End
    seconds_to_next: float | None = None


@dataclass(frozen=True)
class Drained:
    """What a worker did at its job, and why it left."""

    end: End
    worked: int
    seconds_to_next: float | None = None
    """The seconds until there is something to do again, if the slice ended with WAITING."""


def drain(
    worker: Worker,
    *,
    seconds: float | None = None,
    patient: bool = True,
    on_slice: Callable[[Slice], None] = lambda _: None,
) -> Drained:
    """Work slices of the worker's job until there is a reason to leave.

    `seconds`: leave after this time. `patient`: when only items that wait for a retry are left, wait for them;
    otherwise leave.
    """
    worker.standing.leave_at = deadline = None if seconds is None else worker.clock() + seconds
    worked, pause = 0, SHORTEST_PAUSE
    with little_garbage(), telling.about(worker.job, worker=worker.name):
        while True:
            slice_ = outlasting_outages(worker, lambda: worker.run_once(deadline))
            worked += slice_.tally.total
            if slice_.idle:
                reason = outlasting_outages(worker, partial(look_around, worker, patient, pause))
                pause = min(LONGER * pause, IDLE_PAUSE)
            else:
                on_slice(slice_)
                reason, pause = None, SHORTEST_PAUSE
            if reason is None and worker.standing.asked.is_set():
                reason = Leave(End.STOPPED)
            if reason is None and deadline is not None and worker.clock() >= deadline:
                reason = Leave(End.OUT_OF_TIME)
            if reason is not None:
                return Drained(reason.end, worked, reason.seconds_to_next)


@contextmanager
def little_garbage() -> Iterator[None]:
    """Leave the objects that the process has already out of the collector's rounds. Thousands of leases a second start
    these rounds often, and a tenth of the worker's time would go into looking at the same modules again."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def look_around(worker: Worker, patient: bool, pause: float) -> Leave | None:
    """Look for other work when nothing could be claimed: rescue items that others lost, end the job if it can end, else
    wait for at most this pause, in seconds. Return the reason to leave, if there is one."""
    worker.settler.drain()
    if rescue.run_once(worker.pool, worker.kinds, worker.random, worker.job.job_id).items:
        return None
    job_key = worker.job.job_key
    seen, worker.settler.open_items = worker.settler.open_items, None
    if seen == 0:  # the last settlement has seen that no item is open, so there is no need to look first
        job = end.attempt_due(worker.pool, worker.kind, job_key)
    else:
        job = end.attempt(worker.pool, worker.kinds, job_key)
    if job.status is JobState.CANCELLED and job.open_items:
        # A claim that was under way kept its items from the cancel, and gave them back as they were.
        jobs.cancel_waiting(worker.pool, job.job_id)
    if job.finished:
        return Leave(End.FINISHED)
    if job.status is not JobState.RUNNING:
        return Leave(End.PAUSED)
    with transaction(worker.pool) as connection:
        wait = leases.seconds_to_next(connection, job.job_id)
    if not patient and job.retry_wait_items and job.retry_wait_items == job.open_items:
        return Leave(End.WAITING, max(wait or 0.0, 0.0))
    worker.standing.asked.wait(pause if wait is None else min(pause, max(wait, SHORTEST_PAUSE)))
    return None


def outlasting_outages(worker: Worker, step: Callable[[], Answer]) -> Answer:
    """Return the step's answer; the step is tried again while the database is away."""
    deadline = worker.clock() + OUTAGE_PATIENCE
    while True:
        try:
            return step()
        except (Unavailable, psycopg.OperationalError) as error:
            lasts = isinstance(error, psycopg.Error) and not faults.passes(error)
            if lasts or worker.clock() > deadline or worker.standing.asked.is_set():
                raise
            log.warning("worker %s waits for the database: %s", worker.name, error)
            worker.standing.asked.wait(OUTAGE_PAUSE)
