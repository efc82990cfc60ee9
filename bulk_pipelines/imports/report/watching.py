"""Watching an import that other processes work: a progress bar with rows, rows/s, errors and the time left."""

from dataclasses import dataclass

from sqlalchemy import Engine

from bulk_pipelines.counted import counted
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.progress import Progress
from bulk_pipelines.imports.report.shown import ImportShown
from bulk_pipelines.terminal import progress_bar
from bulk_pipelines.terminal.progress_bar import Gauge
from bulk_pipelines.terminal.watching import Work

GOOD = {JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS}


@dataclass(frozen=True)
class Seen:
    """One look at the import."""

    job: Job
    counted: Progress
    bytes_read: int
    bytes_in_all: int
    load_seconds: float
    """The seconds for which records have been loaded."""

    @property
    def good(self) -> bool:
        return self.job.status in GOOD


def look(pool: Engine, job_key: str) -> Seen:
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key)
        counted = progress.read(connection, job.job_id)
        row = connection.execute(queries.text("import_progress", "bytes"), {"job_id": job.job_id}).fetchone()
    assert row is not None
    bytes_read, bytes_in_all, load_seconds = row
    result = job.result or {}
    return Seen(job, counted, bytes_read, bytes_in_all, result.get("load_seconds") or load_seconds)


def work_and_watch(pool: Engine, job_key: str, work: Work, *, quiet: bool) -> Seen:
    return progress_bar.work_and_watch(pool, work, lambda: look(pool, job_key), gauge, quiet=quiet)


def gauge(seen: Seen) -> Gauge:
    counts = seen.counted.counts
    total = seen.bytes_in_all or None
    completed = (total or 1) if seen.job.finished and seen.good else seen.bytes_read
    return Gauge(counts.read, f"{counted(counts.rejected, 'error')}", completed, total, seen.load_seconds)


def shown(seen: Seen, *, submitted_before: bool) -> ImportShown:
    """Return what the import came to, for programs."""
    job, counts, result = seen.job, seen.counted.counts, seen.job.result or {}
    return ImportShown(
        job=job.job_key,
        submitted_before=submitted_before,
        state=str(job.status),
        mode=job.params["mode"],
        match_on=result.get("match_on"),
        read=counts.read,
        loaded=counts.loaded,
        inserted=counts.inserted,
        updated=counts.updated,
        unchanged=counts.unchanged,
        rejected=counts.rejected,
        superseded=counts.superseded,
        valid=counts.valid,
        unprocessed=counts.unprocessed,
        load_seconds=result.get("load_seconds"),
        seconds=job.seconds_in_all,
        rows_per_second=result.get("rows_per_second"),
        error=job.last_error,
    )


def summary(seen: Seen) -> str:
    """Say in a few lines what the import came to."""
    job, counts = seen.job, seen.counted.counts
    result = job.result or {}
    loaded = f"{counts.loaded:,} loaded"
    if "match_on" in result:
        loaded += f" ({counts.inserted:,} inserted, {counts.updated:,} updated, {counts.unchanged:,} unchanged)"
    parts = [f"{counts.read:,} read", loaded, f"{counts.rejected:,} rejected"]
    parts += [f"{counts.superseded:,} superseded"] if counts.superseded else []
    parts += [f"{counts.valid:,} valid"] if counts.valid else []
    parts += [f"{counts.waiting:,} undecided"] if job.finished and counts.waiting else []
    parts += [f"{counts.unprocessed:,} unprocessed"] if counts.unprocessed else []
    lines = [f"{job.job_key} {job.status}: {', '.join(parts)}"]
    if job.last_error:
        lines.append(job.last_error)
    if result.get("match_on"):
        lines.append(f"matched on {result['match_on']}")
    if result.get("load_seconds") and job.seconds_in_all is not None:
        lines.append(
            f"{result['load_seconds']:.1f} s to load ({result['rows_per_second']:,.0f} rows/s), "
            f"{job.seconds_in_all:.1f} s in all"
        )
    if counts.rejected:
        lines.append(f"see them: bulk import errors {job.job_key}")
    return "\n".join(lines)
