"""The end of an export: what its job keeps of the file, and nothing of the file when there is to be none."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import jobs
from bulk_pipelines.engine.jobs import Job
from bulk_pipelines.engine.kinds import Ending
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines.exports import handling, progress, target
from bulk_pipelines.exports.asked import Asked
from bulk_pipelines.exports.progress import Progress
from bulk_pipelines.exports.target import Place
from bulk_pipelines.storage.errors import Missing, Permanent, SourceChanged, StorageError

log = logging.getLogger(__name__)
Connection = psycopg.Connection[Any]

AT_A_TIME = 100
NOTES = {"preview", handling.REPLACES}
"""What is said of the file while its job is at work, and not kept."""
IN_VAIN = {JobState.CANCELLED, JobState.FAILED}


def finish(connection: Connection, job: Job) -> Ending:
    result, error = file_of(connection, job)
    if job.dlq_items or result is None:
        return Ending(JobEvent.FAIL, error=error)
    progress.forget(connection, job.job_id)
    return Ending(JobEvent.COMPLETE, {name: value for name, value in result.items() if name not in NOTES})


def file_of(connection: Connection, job: Job) -> tuple[dict[str, Any] | None, str | None]:
    """What was said of the file, and what went wrong with it. Neither, when retention has been here."""
    row = connection.execute(queries.text("exports", "file_of_job"), {"job_id": job.job_id}).fetchone()
    return (None, None) if row is None else (row[0], row[1])


def wind_up(pool: Engine, job_key: str) -> None:
    """Of an export that was cancelled or given up: nothing remains, not even what was published just then."""
    with transaction(pool) as connection:
        # Held still: nobody takes the job up again while its file is being removed.
        job_id, state = jobs.locked(connection, job_key)
        job, found = jobs.find(connection, job_key), progress.read(connection, job_id)
        if state in IN_VAIN and not job.running_items and found is not None and removed(job, found):
            progress.forget(connection, job_id)


def removed(job: Job, found: Progress) -> bool:
    """Whether nothing of the export is left, as far as that can ever be said."""
    asked = Asked.parse(job.params)
    try:
        with target.opened(asked.to, asked.request, job.job_key, settings.current()) as place:
            if place.is_ours:
                place.storage.delete(place.key)
            elif version := to_be_taken_back(place, found):
                with suppress(Missing, SourceChanged):  # it is somebody else's by now
                    place.storage.take_away(place.key, version)
            handling.sweep(place)
    except Permanent as error:
        log.info("export %s left nothing that could be removed: %s", job.job_key, error)
    except StorageError as error:
        log.warning("export %s is to be cleaned up after later: %s", job.job_key, error)
        return False
    return True


def to_be_taken_back(place: Place, found: Progress) -> str | None:
    """The version of the file of a name that was given, if it is this export's and took nobody's place: the earlier one
    cannot come back, and without this one there would be none."""
    if found.written is None or found.written.get(handling.REPLACES):
        return None
    return handling.written_version(place, found)


def wind_up_all(pool: Engine) -> int:
    """Wind up the exports that nobody was left to wind up; returns how many. The others do not wait for one that cannot
    be wound up."""
    count = 0
    for job_key in ended_in_vain(pool):
        try:
            wind_up(pool, job_key)
            count += 1
        except Exception:
            log.exception("export %s cannot be wound up; the others do not wait for it", job_key)
    return count


def ended_in_vain(pool: Engine) -> Iterator[str]:
    last = 0
    while True:
        with transaction(pool) as connection:
            values = {"most": AT_A_TIME, "after_id": last}
            rows = connection.execute(queries.text("exports", "ended_in_vain"), values).fetchall()
        if not rows:
            return
        yield from (job_key for job_key, _ in rows)
        last = rows[-1][1]
