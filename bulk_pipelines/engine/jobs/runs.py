"""A run takes a job up once, whatever its steps are and however often each of them is tried.

A run that a person began resumes a paused job, plans a job again that failed before it had items, and tries again the
items that a finished job gave up. This is decided when the run begins and never again: its next steps do not undo a
pause or a burial that comes while the run is at work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs import audit, jobs, redrive
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JOB_MOVES, ItemState, JobEvent, JobState, sources


@dataclass(frozen=True)
class TakenUp:
    """What came of taking a job up."""

    job: Job
    first: bool
    """Whether the run has only now begun with the job."""
    was: JobState
    """The state that the job was found in."""
    redriven: int = 0


def take_up(
    pool: Engine,
    job_key: str,
    dagster_run_id: str,
    statuses: Sequence[ItemState] = (ItemState.DLQ,),
    *,
    by_person: bool,
    kind: str | None = None,
    by: Actor | None = None,
) -> TakenUp:
    """Start the job, if it may run and is of this kind; None stands for any kind. Only a run's first call decides
    anything. If a person launched the run and the job is over, the items in `statuses` are redriven; `by` is this
    person, where nothing else says who it was."""
    with transaction(pool) as connection:
        job = jobs.lock(connection, job_key)
        was = job.status
        if kind not in (None, job.kind):
            return TakenUp(job, first=False, was=was)
        first, redriving = noted(connection, job, dagster_run_id, by_person and is_redrivable(job, statuses))
        if first:
            audit.note(connection, by, "launch", job.job_id, run=dagster_run_id, was=was)
        if first and not redriving:
            job = begun(connection, job, dagster_run_id, by_person)
    if not redriving:
        return TakenUp(job, first, was)
    redriven = redrive.redrive(pool, job_key, statuses, run_follows=True)
    with transaction(pool) as connection:
        job = jobs.lock(connection, job_key)
        if connection.execute(queries.text("runs", "redriven"), {"dagster_run_id": dagster_run_id}).fetchone():
            job = started(connection, job, dagster_run_id)
    return TakenUp(job, first, was, redriven)


def noted(connection: Connection, job: Job, dagster_run_id: str, redriving: bool) -> tuple[bool, bool]:
    """Return whether this is the run's first step at the job, and whether its buried items are still to be redriven."""
    values = {"dagster_run_id": dagster_run_id, "job_id": job.job_id, "redriving": redriving}
    if connection.execute(queries.text("runs", "take_up"), values).fetchone():
        return True, redriving
    row = connection.execute(queries.text("runs", "is_redriving"), values).fetchone()
    return False, bool(row and row[0])


def is_redrivable(job: Job, statuses: Sequence[ItemState]) -> bool:
    """Whether a redrive would find work: items in these statuses, or items that a job had not begun when it failed
    fast."""
    if job.status not in sources(JOB_MOVES, JobEvent.REDRIVE):
        return False
    return any(redrive.counted(job, status) for status in statuses) or redrive.may_go_on(job)


def begun(connection: Connection, job: Job, dagster_run_id: str, by_person: bool) -> Job:
    if by_person and job.status is JobState.PAUSED:
        job = jobs.resume(connection, job.job_key)
    if by_person and job.status is JobState.FAILED and job.planned_at is None:
        job = jobs.move(connection, job.job_key, JobEvent.REDRIVE)
    return started(connection, job, dagster_run_id)


def started(connection: Connection, job: Job, dagster_run_id: str) -> Job:
    if job.status not in sources(JOB_MOVES, JobEvent.START):
        return job
    return jobs.begin(connection, job, dagster_run_id)


def not_terminated(connection: Connection, dagster_run_ids: Sequence[str]) -> set[str]:
    """Return which of these runs have not been given to `terminate` yet."""
    values = {"dagster_run_ids": list(dagster_run_ids)}
    return {row[0] for row in connection.execute(queries.text("runs", "not_terminated"), values)}


def terminate(
    connection: Connection, job_key: str, dagster_run_id: str, event: JobEvent | None, by: Actor | None = None
) -> bool:
    """Note that a person has terminated this run, and do what that means for the job: a pause, a cancel, or nothing
    because another run works it. False when that was noted before. After a cancel, the caller calls
    `jobs.cancel_waiting`."""
    job = jobs.lock(connection, job_key)
    values = {"dagster_run_id": dagster_run_id, "job_id": job.job_id}
    if connection.execute(queries.text("runs", "terminate"), values).fetchone() is None:
        return False
    if event is not None and job.status in sources(JOB_MOVES, event):
        jobs.move(connection, job_key, event, by=by)
    return True
