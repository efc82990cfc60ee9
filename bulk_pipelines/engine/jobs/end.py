"""The end of a job: it ends when no item is open any more, and its items decide in which state."""

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.counted import counted
from bulk_pipelines.database import advisory, queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Ending, Finish, Kind
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines.engine.worker import retry
from bulk_pipelines.errors import ErrorClass, InvalidInput, Unavailable

log = logging.getLogger(__name__)

BATCH = 1_000
TRIES = 3
"""How often the end is tried when nobody knows whether the error will pass."""


def verdict(job: Job) -> Ending:
    """Return the ending that the counters alone give. Items that were not found or skipped were dealt with; buried ones
    were not."""
    if not job.dlq_items:
        return Ending(JobEvent.COMPLETE)
    if job.fail_fast or job.dlq_items == job.total_items - job.cancelled_items:
        return Ending(JobEvent.FAIL, error=f"the DLQ has {job.dlq_items} of {counted(job.total_items, 'item')}")
    return Ending(JobEvent.COMPLETE_WITH_ERRORS)


def attempt(pool: Engine, kinds: Mapping[str, Kind], job_key: str) -> Job:
    """End the job if no item is open any more. Whoever comes first does it, a worker or the finalizer, with the same
    result."""
    job = look(pool, job_key)
    return attempt_due(pool, kinds[job.kind], job_key) if is_due(job) else job


def attempt_due(pool: Engine, kind: Kind, job_key: str) -> Job:
    """End a job that was seen without open items, if that is still so."""
    if kind.reconcile is None:
        return end(pool, kind, job_key)
    with alone(pool, job_key) as ours:
        if not ours:
            return look(pool, job_key)  # somebody else reconciles and ends it
        return brought_to_its_end(pool, kind, job_key)


def alone(pool: Engine, job_key: str) -> AbstractContextManager[bool]:
    """Hold the lock of whoever reconciles a job, to end it or to wind it up, and tell whether it could be had."""
    return advisory.held(pool, f"bulk_pipelines.settle.{job_key}")  # older processes know this name


def brought_to_its_end(pool: Engine, kind: Kind, job_key: str) -> Job:
    """Reconcile and end the job. A job that cannot be ended fails with the reason, instead of running for ever. An
    error that may pass is raised, so that somebody tries again later."""
    for left in reversed(range(TRIES)):
        job = look(pool, job_key)  # whoever was at it before may have ended the job
        if not is_due(job) or kind.reconcile is None:
            return job
        try:
            return end(pool, kind, job_key) if kind.reconcile(pool, job) else look(pool, job_key)
        except Exception as error:
            error_class = retry.class_of(error)
            if error_class in (ErrorClass.TRANSIENT, ErrorClass.THROTTLED):
                raise
            log.exception("job %s cannot be ended", job_key)
            if error_class is ErrorClass.PERMANENT or not left:
                said = outcomes.storable(f"it could not be ended: {outcomes.text(error)}")
                failed = Ending(JobEvent.FAIL, error=said)
                with transaction(pool) as connection:
                    end_in(connection, partial(always, failed), job_key)
                break
    return look(pool, job_key)


def always(ending: Ending, _: Connection, __: Job) -> Ending:
    return ending


def look(pool: Engine, job_key: str) -> Job:
    """Return the job as the database has it now."""
    with transaction(pool) as connection:
        return jobs.find(connection, job_key)


def is_due(job: Job) -> bool:
    """Whether the job can end: it runs, all its items are known, and none is open."""
    return job.status is JobState.RUNNING and job.planned_at is not None and not job.open_items


def end(pool: Engine, kind: Kind, job_key: str) -> Job:
    with transaction(pool) as connection:
        job, _ = ended(connection, kind.finish, job_key)
        return job


def end_in(connection: Connection, decide: Finish | None, job_key: str) -> bool:
    """End the job in the caller's transaction. False when it may not end any more."""
    _, is_over = ended(connection, decide, job_key)
    return is_over


def ended(connection: Connection, decide: Finish | None, job_key: str) -> tuple[Job, bool]:
    """Do what `end_in` does, and return the job, too."""
    job = jobs.lock(connection, job_key)
    if not is_due(job):
        return job, False
    ending = decide(connection, job) if decide else verdict(job)
    target = jobs.checked_move(job_key, job.status, ending.event)
    return jobs.write(connection, job.job_id, target, ending.error, keepable(ending.result)), True


def keepable(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the result, or why it was left out: a job whose result cannot be kept would never end."""
    try:
        if result is not None:
            payload.encode("result", result)
    except InvalidInput as error:
        return {"left_out": str(error)}
    return result


def is_anything_due(connection: Connection) -> bool:
    """Whether the finalizer's pass would find a job to end, or a cancel to complete."""
    return any(
        connection.execute(queries.text("jobs", query), {"most": 1}).fetchone()
        for query in ("unfinished_jobs", "cancelled_jobs_with_open_items")
    )


def run_once(pool: Engine, kinds: Mapping[str, Kind]) -> list[Job]:
    """Make the finalizer's pass: end the jobs whose last worker died before it could end them, and complete cancels
    that were cut short."""
    with transaction(pool) as connection:
        ready = connection.execute(queries.text("jobs", "unfinished_jobs"), {"most": BATCH}).fetchall()
        half_cancelled = connection.execute(
            queries.text("jobs", "cancelled_jobs_with_open_items"), {"most": BATCH}
        ).fetchall()
    over = []
    for (job_key,) in ready:
        try:
            over.append(attempt(pool, kinds, job_key))
        except Unavailable as error:
            look(pool, job_key)  # when the database is away, no job can be ended: this raises
            log.warning("job %s cannot be ended now: %s", job_key, error)
        except Exception:
            log.exception("job %s cannot be ended; the others do not wait for it", job_key)
    return over + [jobs.cancel(pool, job_key) for (job_key,) in half_cancelled]
