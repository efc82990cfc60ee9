"""The end of a job: when nothing is open any more, and what its items came to."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database import advisory, queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import jobs, outcomes, payload, retry
from bulk_pipelines.engine.errors import ErrorClass
from bulk_pipelines.engine.jobs import Job
from bulk_pipelines.engine.kinds import Connection, Ending, Finish, Kind
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines.errors import InvalidInput, Unavailable

log = logging.getLogger(__name__)

BATCH = 1_000
TRIES = 3
"""How often the end is tried when it is not known whether the error passes."""


def verdict(job: Job) -> Ending:
    """By the counters alone. What was not found or skipped was dealt with; what is buried was not."""
    if not job.dlq_items:
        return Ending(JobEvent.COMPLETE)
    if job.fail_fast or job.dlq_items == job.total_items - job.cancelled_items:
        return Ending(JobEvent.FAIL, error=f"{job.dlq_items} of {job.total_items} items are in the DLQ")
    return Ending(JobEvent.COMPLETE_WITH_ERRORS)


def attempt(pool: Engine, kinds: Mapping[str, Kind], job_key: str) -> Job:
    """End the job if it is time to: by whoever comes first, worker or finalizer, with the same answer."""
    job = look(pool, job_key)
    if not is_due(job):
        return job
    kind = kinds[job.kind]
    if kind.settle is None:
        return end(pool, kind, job_key)
    with advisory.held(pool, f"bulk_pipelines.settle.{job_key}") as ours:
        if not ours:
            return job  # somebody else is at it
        return brought_to_its_end(pool, kind, job_key)


def brought_to_its_end(pool: Engine, kind: Kind, job_key: str) -> Job:
    """Settle and end the job. One that cannot be ended fails with the reason, instead of running for ever; what may
    pass is left to a later try."""
    for left in reversed(range(TRIES)):
        job = look(pool, job_key)  # whoever was at it before may have ended the job
        if not is_due(job) or kind.settle is None:
            return job
        try:
            return end(pool, kind, job_key) if kind.settle(pool, job) else look(pool, job_key)
        except Exception as error:
            error_class = retry.class_of(error)
            if error_class in (ErrorClass.TRANSIENT, ErrorClass.THROTTLED):
                raise
            log.exception("job %s cannot be ended", job_key)
            if error_class is ErrorClass.PERMANENT or not left:
                failed = Ending(JobEvent.FAIL, error=retry.storable(f"it could not be ended: {outcomes.text(error)}"))
                with transaction(pool) as connection:
                    end_in(connection, partial(always, failed), job_key)
                break
    return look(pool, job_key)


def always(ending: Ending, _: Connection, __: Job) -> Ending:
    return ending


def look(pool: Engine, job_key: str) -> Job:
    with transaction(pool) as connection:
        return jobs.find(connection, job_key)


def is_due(job: Job) -> bool:
    return job.status is JobState.RUNNING and job.planned_at is not None and not job.open_items


def end(pool: Engine, kind: Kind, job_key: str) -> Job:
    with transaction(pool) as connection:
        end_in(connection, kind.finish, job_key)
        return jobs.find(connection, job_key)


def end_in(connection: Connection, decide: Finish | None, job_key: str) -> bool:
    """End the job in the caller's transaction; false if it may not end any more."""
    job_id, state = jobs.locked(connection, job_key)
    job = jobs.find(connection, job_key)
    if not is_due(job):
        return False
    ending = decide(connection, job) if decide else verdict(job)
    target = jobs.checked_move(job_key, state, ending.event)
    jobs.write(connection, job_id, target, ending.error, keepable(ending.result))
    return True


def keepable(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """The result, or why it was left out: a job whose result cannot be kept would never end."""
    try:
        if result is not None:
            payload.encode("result", result)
    except InvalidInput as error:
        return {"left_out": str(error)}
    return result


def run_once(pool: Engine, kinds: Mapping[str, Kind]) -> list[Job]:
    """The finalizer's pass: jobs whose last worker died before it could end them, cancels cut short."""
    with transaction(pool) as connection:
        ready = connection.execute(queries.text("jobs", "unfinished_jobs"), {"most": BATCH}).fetchall()
        half_cancelled = connection.execute(
            queries.text("jobs", "cancelled_jobs_with_open_items"), {"most": BATCH}
        ).fetchall()
    ended = []
    for (job_key,) in ready:
        try:
            ended.append(attempt(pool, kinds, job_key))
        except Unavailable as error:
            look(pool, job_key)  # when it is the database that is away, none can be ended
            log.warning("job %s cannot be ended now: %s", job_key, error)
        except Exception:
            log.exception("job %s cannot be ended; the others do not wait for it", job_key)
    return ended + [jobs.cancel(pool, job_key) for (job_key,) in half_cancelled]
