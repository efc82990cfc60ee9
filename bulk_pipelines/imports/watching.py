"""An import that somebody else works, watched: a progress bar with rows, rows/s, errors and the time left."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import jobs
from bulk_pipelines.engine.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import BulkError, Conflict
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.progress import Progress as Counted

LOOK_SECONDS = 0.25
GOOD = {JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS}

Work = Callable[[str], "subprocess.Popen[bytes]"]
"""Starts a process that works a job."""


@dataclass(frozen=True)
class Seen:
    """One look at the import."""

    job: Job
    counted: Counted
    bytes_read: int
    bytes_in_all: int

    @property
    def good(self) -> bool:
        return self.job.status in GOOD


def look(pool: Engine, job_key: str) -> Seen:
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key)
        counted = progress.read(connection, job.job_id)
        row = connection.execute(queries.text("import_progress", "bytes"), {"job_id": job.job_id}).fetchone()
    assert row is not None
    return Seen(job, counted, *row)


def work_and_watch(pool: Engine, job_key: str, work: Work) -> Seen:
    """Until the import is over. A first Ctrl-C asks to cancel it, a second one leaves it to itself."""
    seen = look(pool, job_key)
    return seen if seen.job.finished else watched(pool, job_key, work, seen)


def watched(pool: Engine, job_key: str, work: Work, seen: Seen) -> Seen:
    # Submitted before, and at work already: then it is only watched.
    process = work(job_key) if seen.job.status is JobState.SUBMITTED else None
    with bar() as shown:
        task = shown.add_task(job_key, total=None, rows=0, rate=0.0, errors=0, state="")
        began = time.monotonic()
        cancelled = False
        while not over(seen, process):
            try:
                show(shown, task, seen, time.monotonic() - began)
                time.sleep(LOOK_SECONDS)
                seen = look(pool, job_key)
                check(process, seen)
            except KeyboardInterrupt:
                if cancelled:
                    raise
                cancelled = True
                ask_to_cancel(pool, job_key)
        show(shown, task, seen, time.monotonic() - began)
    return seen


def over(seen: Seen, process: "subprocess.Popen[bytes] | None") -> bool:
    return seen.job.finished and not is_alive(process)


def is_alive(process: "subprocess.Popen[bytes] | None") -> bool:
    return process is not None and process.poll() is None


def check(process: "subprocess.Popen[bytes] | None", seen: Seen) -> None:
    if process is None or is_alive(process) or seen.job.finished:
        return
    if seen.job.status is JobState.PAUSED:
        raise Conflict(f"import {seen.job.job_key} is paused: bulk resume {seen.job.job_key} goes on with it")
    raise BulkError(f"the process that worked import {seen.job.job_key} has died: the sweeper launches it again")


def ask_to_cancel(pool: Engine, job_key: str) -> None:
    with suppress(Conflict):  # it may have ended in the meantime
        jobs.cancel(pool, job_key)


def bar() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description} {task.fields[state]}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[rate]:,.0f} rows/s"),
        TextColumn("{task.fields[errors]:,} errors"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
    )


def show(shown: Progress, task: TaskID, seen: Seen, seconds: float) -> None:
    counts = seen.counted.counts
    total = seen.bytes_in_all or None
    shown.update(
        task,
        total=total,
        completed=(total or 1) if seen.job.finished and seen.good else seen.bytes_read,
        rows=counts.read,
        rate=counts.read / seconds if seconds > 0 else 0.0,
        errors=counts.rejected,
        state=seen.job.status.lower().replace("_", " "),
    )


def told(seen: Seen) -> str:
    """What it came to, in a few lines."""
    job, counts = seen.job, seen.counted.counts
    result = job.result or {}
    parts = [f"{counts.read:,} read", f"{counts.loaded:,} loaded", f"{counts.rejected:,} rejected"]
    parts += [f"{counts.superseded:,} superseded"] if counts.superseded else []
    parts += [f"{counts.valid:,} valid"] if counts.valid else []
    parts += [f"{seen.counted.unprocessed:,} unprocessed"] if seen.counted.unprocessed else []
    lines = [f"{job.job_key} {job.status}: {', '.join(parts)}"]
    if job.last_error:
        lines.append(job.last_error)
    if result.get("seconds"):
        lines.append(f"{result['seconds']:.1f} s, {result['rows_per_second']:,.0f} rows/s")
    if counts.rejected:
        lines.append(f"see them: bulk import errors {job.job_key}")
    return "\n".join(lines)
