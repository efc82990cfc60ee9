"""Watching an export that another process works: a progress bar shows rows, bytes, rows/s and the time left."""

import sys
from dataclasses import dataclass

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, watching
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.watching import Work
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.exports import progress
from bulk_pipelines.exports.progress import Progress


@dataclass(frozen=True)
class Seen:
    """One look at the export."""

    job: Job
    progress: Progress

    @property
    def good(self) -> bool:
        return self.job.status is JobState.COMPLETED


def look(pool: Engine, job_key: str) -> Seen:
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key)
        result = job.result
        if result is not None and job.status is JobState.COMPLETED:
            return Seen(job, Progress(result["rows"], result["bytes"], result["rows"]))
        return Seen(job, progress.read(connection, job.job_id) or Progress())


def work_and_watch(pool: Engine, job_key: str, work: Work) -> Seen:
    """Show a progress bar until the export is over. A first Ctrl-C asks to cancel the export, a second one stops
    watching it."""
    seen = look(pool, job_key)
    if seen.job.finished:
        return seen
    with bar() as shown:
        task = shown.add_task(job_key, total=None, rows=0, size="", rate=0.0, state="")
        return watching.work_and_watch(
            pool, seen, work, lambda: look(pool, job_key), lambda each, seconds: show(shown, task, each, seconds)
        )


def bar() -> Bar:
    return Bar(
        SpinnerColumn(),
        TextColumn("{task.description} {task.fields[state]}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[size]}"),
        TextColumn("{task.fields[rate]:,.0f} rows/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
    )


def show(shown: Bar, task: TaskID, seen: Seen, seconds: float) -> None:
    """Update the progress bar. Until the export is over, its total is the planner's guess, or the rows that have come
    if they are more."""
    at = seen.progress
    shown.update(
        task,
        total=max(at.rows, at.expected_rows) or (1 if seen.good else None),
        completed=at.rows or (1 if seen.good else 0),
        rows=at.rows,
        size=decimal(at.bytes),
        rate=at.rows / seconds if seconds > 0 else 0.0,
        state=seen.job.status.lower(),
    )


def told(seen: Seen) -> str:
    """Describe in a few lines what became of the export."""
    job, result = seen.job, seen.job.result
    if not seen.good or result is None:
        return f"{job.job_key} {job.status}" + (f": {job.last_error}" if job.last_error else "")
    return (
        f"{job.job_key} {job.status}: {result['rows']:,} rows, {result['bytes']:,} bytes, "
        f"{result['duration']:.1f} s, {result['rows_per_second']:,.0f} rows/s\n"
        f"{result['location']}\n"
        f"sha256 {result['sha256']}"
    )
