"""The end of an export. A job that completed keeps a description of its file; of a job that was cancelled or failed, no
file is left."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs import cut_short, jobs, telling
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Ending
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines.errors import Failure, Permanent
from bulk_pipelines.exports import progress, work
from bulk_pipelines.exports.progress import Progress
from bulk_pipelines.exports.publish import target
from bulk_pipelines.exports.publish.target import Place
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.exports.work import Point
from bulk_pipelines.storage.errors import Missing, SourceChanged
from bulk_pipelines.telemetry import events

log = logging.getLogger(__name__)

NOTES = {"preview", work.REPLACES}
"""The fields of the file's description that are there while the job is worked, and that its result leaves out."""
IN_VAIN = {JobState.CANCELLED, JobState.FAILED}


def finish(connection: Connection, job: Job) -> Ending:
    result, error = file_of(connection, job)
    if job.dlq_items or result is None:
        return Ending(JobEvent.FAIL, error=error)
    progress.forget(connection, job.job_id)
    with telling.about(job):
        events.info(
            "export completed",
            resource_type=job.params.get("resource"),
            format=job.params.get("format"),
            total_records=result.get("rows"),
            bytes=result.get("bytes"),
            duration_ms=round(1000 * result.get("duration", 0)),
            rows_per_sec=result.get("rows_per_second"),
        )
    return Ending(JobEvent.COMPLETE, {name: value for name, value in result.items() if name not in NOTES})


def file_of(connection: Connection, job: Job) -> tuple[dict[str, Any] | None, str | None]:
    """Return the result of the job's item, which describes the file, and the item's error. Both are None when retention
    has removed the item."""
    row = connection.execute(queries.text("exports", "file_of_job"), {"job_id": job.job_id}).fetchone()
    return (None, None) if row is None else (row[0], row[1])


def wind_up(pool: Engine, job_key: str, reached: Callable[[Point], None] = work.unheard) -> None:
    """Clear away what a cancelled or failed export left, even a file that was published at that moment. `reached` is
    called when the file is known to be the export's own."""
    with transaction(pool) as connection:
        # The job's row is locked, so that nobody redrives or resumes the job while its file is being removed.
        job = jobs.lock(connection, job_key)
        found = progress.read(connection, job.job_id)
        if job.status in IN_VAIN and not job.running_items and found is not None and removed(job, found, reached):
            progress.forget(connection, job.job_id)


def removed(job: Job, found: Progress, reached: Callable[[Point], None]) -> bool:
    """Remove the export's file and unfinished files; False when it has to be tried again later. What can never be
    removed counts as removed."""
    request = ExportRequest.from_params(job.params)
    try:
        with target.opened(request, job.job_key, settings.current()) as place:
            if place.is_ours:
                place.storage.delete(place.key)
            elif version := to_be_taken_back(place, found):
                reached(Point.RECOGNISED)
                with suppress(Missing, SourceChanged):  # by now the name has no file, or a file of somebody else
                    place.storage.take_away(place.key, version)
            work.sweep(place)
    except Permanent as error:
        log.info("export %s left nothing that could be removed: %s", job.job_key, error)
    except Failure as error:
        log.warning("what export %s has left is removed later: %s", job.job_key, error)
        return False
    return True


def to_be_taken_back(place: Place, found: Progress) -> str | None:
    """Return the version of the file to remove from a name that was given, if this export published it; else None. A
    file that replaced an earlier one stays: the earlier one cannot come back, and without this one there would be none.
    """
    if found.written is None or found.written.get(work.REPLACES):
        return None
    return work.written_version(place, found)


def wind_up_all(pool: Engine) -> int:
    """Wind up the exports that ended without being wound up, and return how many that were."""
    return cut_short.wind_up_all(pool, wind_up, queries.text("exports", "ended_in_vain"), {})


def is_anything_due(pool: Engine) -> bool:
    """Whether `wind_up_all` would find something to do."""
    return cut_short.is_anything_due(pool, queries.text("exports", "ended_in_vain"), {})
