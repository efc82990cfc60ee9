"""Watching an import that other processes work: a progress bar with rows, rows/s, errors and the time left."""

from dataclasses import dataclass

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, progress_bar
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.progress_bar import Gauge
from bulk_pipelines.engine.jobs.watching import Work
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.progress import Progress

GOOD = {JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS}


@dataclass(frozen=True)
class Seen:
    """One look at the import."""

    job: Job
    counted: Progress
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


def work_and_watch(pool: Engine, job_key: str, work: Work, *, quiet: bool) -> Seen:
    return progress_bar.work_and_watch(pool, work, lambda: look(pool, job_key), gauge, quiet=quiet)


def gauge(seen: Seen) -> Gauge:
    counts = seen.counted.counts
    total = seen.bytes_in_all or None
    completed = (total or 1) if seen.job.finished and seen.good else seen.bytes_read
    return Gauge(counts.read, f"{counts.rejected:,} errors", completed, total)


def summary(seen: Seen) -> str:
    """Say in a few lines what the import came to."""
    job, counts = seen.job, seen.counted.counts
    result = job.result or {}
    parts = [f"{counts.read:,} read", f"{counts.loaded:,} loaded", f"{counts.rejected:,} rejected"]
    parts += [f"{counts.superseded:,} superseded"] if counts.superseded else []
    parts += [f"{counts.valid:,} valid"] if counts.valid else []
    parts += [f"{counts.waiting:,} undecided"] if job.finished and counts.waiting else []
    parts += [f"{counts.unprocessed:,} unprocessed"] if counts.unprocessed else []
    lines = [f"{job.job_key} {job.status}: {', '.join(parts)}"]
    if job.last_error:
        lines.append(job.last_error)
    if result.get("seconds"):
        lines.append(f"{result['seconds']:.1f} s, {result['rows_per_second']:,.0f} rows/s")
    if counts.rejected:
        lines.append(f"see them: bulk import errors {job.job_key}")
    return "\n".join(lines)
