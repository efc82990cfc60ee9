"""Watching an export that another process works: a progress bar shows rows, bytes, rows/s and the time left."""

from dataclasses import dataclass

from rich.filesize import decimal
from sqlalchemy import Engine

from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.exports import progress
from bulk_pipelines.exports.progress import Progress
from bulk_pipelines.exports.report.shown import ExportShown
from bulk_pipelines.terminal import progress_bar
from bulk_pipelines.terminal.progress_bar import Gauge
from bulk_pipelines.terminal.watching import Work


@dataclass(frozen=True)
class Seen:
    """One look at the export."""

    job: Job
    progress: Progress
    write_seconds: float
    """The seconds for which the file has been written."""

    @property
    def good(self) -> bool:
        return self.job.status is JobState.COMPLETED


def look(pool: Engine, job_key: str) -> Seen:
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key)
        result = job.result
        if result is not None and job.status is JobState.COMPLETED:
            return Seen(job, Progress(result["rows"], result["bytes"], result["rows"]), result["duration"])
        begun = progress.seconds(connection, job.job_id)
        return Seen(job, progress.read(connection, job.job_id) or Progress(), begun)


def work_and_watch(pool: Engine, job_key: str, work: Work, *, quiet: bool) -> Seen:
    return progress_bar.work_and_watch(pool, work, lambda: look(pool, job_key), gauge, quiet=quiet)


def gauge(seen: Seen) -> Gauge:
    """Return what the bar shows. Until the export is over, its total is the planner's guess, or the rows that have come
    if they are more."""
    at = seen.progress
    total = max(at.rows, at.expected_rows) or (1 if seen.good else None)
    return Gauge(at.rows, decimal(at.bytes), at.rows or (1 if seen.good else 0), total, seen.write_seconds)


def shown(seen: Seen, *, submitted_before: bool) -> ExportShown:
    """Return what the export came to, for programs."""
    job, result = seen.job, (seen.job.result if seen.good else None) or {}
    return ExportShown(
        job=job.job_key,
        submitted_before=submitted_before,
        state=str(job.status),
        rows=result.get("rows"),
        bytes=result.get("bytes"),
        sha256=result.get("sha256"),
        location=result.get("location"),
        write_seconds=result.get("duration"),
        seconds=job.seconds_in_all,
        rows_per_second=result.get("rows_per_second"),
        error=job.last_error,
    )


def summary(seen: Seen) -> str:
    """Describe in a few lines what became of the export."""
    job, result = seen.job, seen.job.result
    if not seen.good or result is None:
        return f"{job.job_key} {job.status}" + (f": {job.last_error}" if job.last_error else "")
    return (
        f"{job.job_key} {job.status}: {counted(result['rows'], 'row')}, {counted(result['bytes'], 'byte')}, "
        f"{result['duration']:.1f} s to write ({result['rows_per_second']:,.0f} rows/s), "
        f"{job.seconds_in_all or 0:.1f} s in all\n"
        f"{result['location']}\n"
        f"sha256 {result['sha256']}"
    )
