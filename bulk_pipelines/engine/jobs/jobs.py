"""Jobs: they are started, paused, cancelled and ended. A job's state changes here and when items are settled."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from psycopg.rows import kwargs_row
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.errors import UnknownJob, WrongState
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import audit, dispatch, telling
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.outcomes import storable
from bulk_pipelines.engine.states import (
    FINISHED_JOBS,
    ITEM_MOVES,
    JOB_MOVES,
    IllegalMove,
    ItemEvent,
    JobEvent,
    JobState,
    after,
    sources,
)

CANCEL_BATCH = 10_000


@dataclass(frozen=True)
class Job:
    """A job as the database had it when it was read."""

    job_id: int
    job_key: str
    kind: str
    owner: str
    origin: str
    params: dict[str, Any]
    status: JobState
    fail_fast: bool
    planned_at: datetime | None
    total_items: int
    pending_items: int
    running_items: int
    retry_wait_items: int
    succeeded_items: int
    not_found_items: int
    skipped_items: int
    dlq_items: int
    cancelled_items: int
    attempts: int
    last_error: str | None
    result: dict[str, Any] | None
    request_id: str | None
    trace_parent: str | None
    dagster_run_id: str | None
    created_at: datetime
    started_at: datetime | None
    heartbeat_at: datetime | None
    finished_at: datetime | None
    address: str | None = None
    file_id: str | None = None
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", JobState(self.status))

    @property
    def open_items(self) -> int:
        return self.pending_items + self.running_items + self.retry_wait_items

    @property
    def finished(self) -> bool:
        return self.finished_at is not None

    @property
    def seconds_at_work(self) -> float:
        """How long it is since the job's first run began, up to the job's end; 0 before that."""
        if self.started_at is None:
            return 0.0
        return ((self.finished_at or datetime.now(UTC)) - self.started_at).total_seconds()

    @property
    def seconds_in_all(self) -> float | None:
        """How long the job took from its submission to its end; None before that."""
        return None if self.finished_at is None else (self.finished_at - self.created_at).total_seconds()


def find(connection: Connection, job_key: str, owner: str | None = None) -> Job:
    """Return the job with this key. Raises UnknownJob, also when it belongs to somebody else than the owner who
    asks."""
    job = job_of(connection, "find_job", {"job_key": payload.text("job", job_key), "owner": owner})
    if job is None:
        raise UnknownJob(job_key)
    return job


def job_of(connection: Connection, query: str, values: Mapping[str, Any]) -> Job | None:
    """Return the job whose row comes back from a query, which may write the job and saves a look at it."""
    with connection.cursor(row_factory=kwargs_row(as_job)) as cursor:
        return cursor.execute(queries.text("jobs", query), values).fetchone()


def written(connection: Connection, query: str, values: Mapping[str, Any]) -> Job:
    """Return the job that a query has written."""
    job = job_of(connection, query, values)
    assert job is not None, "a job that is being worked is not deleted"
    return job


def as_job(**columns: Any) -> Job:
    return Job(**{each.name: columns[each.name] for each in fields(Job)})


def start(connection: Connection, job_key: str, dagster_run_id: str | None = None) -> Job:
    """Note that a run begins to work the job, or goes on with it."""
    return begin(connection, lock(connection, job_key), dagster_run_id)


def begin(connection: Connection, job: Job, dagster_run_id: str | None = None) -> Job:
    """Do what `start` does with a job that the caller has locked."""
    checked_move(job.job_key, job.status, JobEvent.START)
    values = {"job_id": job.job_id, "dagster_run_id": optional_text("dagster_run_id", dagster_run_id)}
    job = written(connection, "start_job", values)
    telling.started(job)
    return job


def seal(connection: Connection, job_id: int) -> Job:
    """Say that all items of the job are known, and return the job. From now on it may end."""
    return written(connection, "seal_job", {"job_id": job_id})


def pause(connection: Connection, job_key: str, by: Actor | None = None) -> Job:
    """Pause the job: its workers stop at their next slice border. Pausing a paused job changes nothing."""
    return move(connection, job_key, JobEvent.PAUSE, already=(JobState.PAUSED,), by=by)


def resume(connection: Connection, job_key: str, by: Actor | None = None) -> Job:
    """Resume a paused job. The run that worked it ended at the pause, so the job wants another one."""
    job = lock(connection, job_key, seen_by(by))
    if job.status is JobState.PAUSED:
        job = write(connection, job.job_id, after(JOB_MOVES, job.status, JobEvent.RESUME))
        audit.note(connection, by, JobEvent.RESUME, job.job_id)
        dispatch.want(connection, job.job_id)
    elif job.status not in (JobState.RUNNING, JobState.SUBMITTED):
        raise WrongState(job_key, job.status, JobEvent.RESUME)
    return job


def cancel(pool: Engine, job_key: str, by: Actor | None = None) -> Job:
    """Cancel the job. Items that wait are cancelled now, in bounded transactions; items in work end at their worker's
    slice border."""
    with transaction(pool) as connection:
        job = move(connection, job_key, JobEvent.CANCEL, already=(JobState.CANCELLED,), by=by)
    cancel_waiting(pool, job.job_id)
    with transaction(pool) as connection:
        return find(connection, job_key)


def fail(connection: Connection, job_key: str, error: str, result: dict[str, Any] | None = None) -> Job:
    """Let the job fail with this error. Failing a failed job changes nothing."""
    return move(connection, job_key, JobEvent.FAIL, already=(JobState.FAILED,), error=error, result=result)


def cancel_waiting(pool: Engine, job_id: int) -> None:
    """Cancel the waiting items of a cancelled job. Items that workers hold are cancelled by those workers."""
    cancelled = 1
    while cancelled:
        with transaction(pool) as connection:
            cancelled = cancel_some(connection, job_id)


def cancel_some(connection: Connection, job_id: int) -> int:
    """Cancel a bounded number of waiting items, and return how many."""
    values = {"job_id": job_id, "waiting": sources(ITEM_MOVES, ItemEvent.CANCEL), "most": CANCEL_BATCH}
    row = connection.execute(queries.text("items", "cancel_items"), values).fetchone()
    return row[0] if row else 0


def move(
    connection: Connection,
    job_key: str,
    event: JobEvent,
    *,
    already: tuple[JobState, ...] = (),
    error: str | None = None,
    result: dict[str, Any] | None = None,
    by: Actor | None = None,
) -> Job:
    """Move the job by this event. In one of the states in `already` the event has happened before, and nothing
    changes."""
    job = lock(connection, job_key, seen_by(by))
    if job.status in already:
        return job
    job = write(connection, job.job_id, checked_move(job_key, job.status, event), error, result)
    audit.note(connection, by, event, job.job_id)
    return job


def write(
    connection: Connection, job_id: int, state: JobState, error: str | None = None, result: dict[str, Any] | None = None
) -> Job:
    """Write the next state of a job, and return the job."""
    values = {
        "job_id": job_id,
        "status": state,
        "finished": state in FINISHED_JOBS,
        "error": None if error is None else storable(error),
        "result": None if result is None else payload.encode("result", result),
    }
    job = written(connection, "move_job", values)
    telling.moved(job)
    return job


def seen_by(by: Actor | None) -> str | None:
    """Return the only owner whose jobs this actor may know of; None if the actor may know of all."""
    return None if by is None else by.sees


def lock(connection: Connection, job_key: str, owner: str | None = None) -> Job:
    """Lock the job until the transaction ends, and return it. Another owner's job is an unknown one."""
    job = job_of(connection, "lock_job", {"job_key": payload.text("job", job_key), "owner": owner})
    if job is None:
        raise UnknownJob(job_key)
    return job


def checked_move(job_key: str, state: JobState, event: JobEvent) -> JobState:
    try:
        return after(JOB_MOVES, state, event)
    except IllegalMove:
        raise WrongState(job_key, state, event) from None


def optional_text(field: str, value: str | None) -> str | None:
    return None if value is None else payload.text(field, value)


def set_result(connection: Connection, job_id: int, result: dict[str, Any]) -> None:
    """Keep the result of a job that ended before its time."""
    values = {"job_id": job_id, "result": payload.encode("result", result)}
    connection.execute(queries.text("jobs", "set_result"), values)
