"""Watch a job that another process works, until the job is over."""

import math
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch, jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import BulkError, Conflict
from bulk_pipelines.terminal import commanding

LOOK_SECONDS = 0.25
GRACE_SECONDS = 1.0
"""The longest time that the process of a cancelled job is waited for. It ends by itself."""

Work = Callable[[str], "subprocess.Popen[bytes]"]
"""Starts a process that works a job."""


class Sight(Protocol):
    """What one look at a job shows: the job, and whatever else its kind has to show."""

    @property
    def job(self) -> Job: ...


S = TypeVar("S", bound=Sight)


@dataclass(frozen=True)
class Plain:
    """A look that shows nothing but the job."""

    job: Job


def plain(pool: Engine, job_key: str) -> Plain:
    with transaction(pool) as connection:
        return Plain(jobs.find(connection, job_key))


def work_and_watch(
    pool: Engine,
    seen: S,
    work: Work,
    look: Callable[[], S],
    show: Callable[[S, float, bool], None] = lambda _, __, ___: None,
) -> S:
    """Have the job worked, and watch it until it is over. `show` is called with each look, the seconds since the first
    one, and whether the job is being cancelled. A first Ctrl-C cancels the job, a second one leaves the job to itself.
    A process that is still in the middle of something when its job is cancelled is not waited for: it ends by itself,
    and can write nothing any more that counts."""
    job_key = seen.job.job_key
    process, is_begun = None, False
    began = time.monotonic()
    cancelled = False
    deadline = math.inf
    while not (seen.job.finished and (not is_alive(process) or time.monotonic() >= deadline)):
        try:
            if not is_begun and not cancelled:
                is_begun = True
                process = begun(pool, seen.job, work)
            show(seen, time.monotonic() - began, cancelled)
            time.sleep(LOOK_SECONDS)
            seen = look()
            check(process, seen.job)
        except KeyboardInterrupt:
            if cancelled:
                raise
            cancelled = True
            deadline = time.monotonic() + GRACE_SECONDS
            show(seen, time.monotonic() - began, cancelled)
            with suppress(Conflict):  # the job may have ended in the meantime
                jobs.cancel(pool, job_key, commanding.actor())
    show(seen, time.monotonic() - began, cancelled)
    return seen


def begun(pool: Engine, job: Job, work: Work) -> "subprocess.Popen[bytes] | None":
    """Have the job worked; None if it is at work already, or on its way to a run: then it is only watched."""
    with transaction(pool) as connection:
        mine = dispatch.taken(connection, job.job_id)
    return work(job.job_key) if mine else None


def is_alive(process: "subprocess.Popen[bytes] | None") -> bool:
    return process is not None and process.poll() is None


def check(process: "subprocess.Popen[bytes] | None", job: Job) -> None:
    if is_alive(process) or job.finished:
        return
    if job.status is JobState.PAUSED:
        raise Conflict(f"job {job.job_key} is paused: bulk resume {job.job_key} goes on with it")
    if process is not None:
        raise BulkError(f"the process that worked job {job.job_key} has died: the sweeper launches it again")
