"""Jobs: they are submitted once, started, paused, cancelled and ended. A job's state changes here and when items are
settled."""

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from psycopg.rows import kwargs_row
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.errors import IdempotencyConflict, UnknownJob, WrongState
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import audit, dispatch, telling
from bulk_pipelines.engine.jobs.audit import Actor
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
from bulk_pipelines.engine.worker.retry import storable
from bulk_pipelines.errors import InvalidInput

ORIGINS = ("api", "sensor", "ui", "cli")
TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
CANCEL_BATCH = 10_000
HIGHEST_PRIORITY = 100


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
    def seconds_in_all(self) -> float | None:
        """How long the job took from its submission to its end; None before that."""
        return None if self.finished_at is None else (self.finished_at - self.created_at).total_seconds()


@dataclass(frozen=True)
class Sender:
    """Who submits a request, through which door, and what came with it."""

    owner: str
    origin: str
    idempotency_key: str | None = None
    request_id: str | None = None
    trace_parent: str | None = None
    priority: int = 0
    by: str | None = None
    """Who sends it, if that is not the owner: an administrator may act for others."""
    address: str | None = None
    """The address that the request came from."""

    file: "SentFile | None" = None
    """The file that came with the request, if one did."""

    def asks(
        self, kind: str, params: Mapping[str, Any], digest: bytes = b"", identity: Mapping[str, Any] | None = None
    ) -> "Request":
        """Return the request of this sender for a job of the kind."""
        return Request(kind, params=params, digest=digest, identity=identity, **vars(self))


@dataclass(frozen=True)
class SentFile:
    """A file that came with the request, and was landed before there was a job."""

    file_id: str
    job_key: str
    """The key that the job is to have: the landed file bears it in its name."""


@dataclass(frozen=True)
class Request:
    """What somebody asks for. An equal request with the same idempotency key names the same job."""

    kind: str
    owner: str
    params: Mapping[str, Any]
    origin: str = "api"
    idempotency_key: str | None = None
    request_id: str | None = None
    trace_parent: str | None = None
    digest: bytes = b""
    """A digest of what the request holds besides its parameters, such as its inputs."""
    identity: Mapping[str, Any] | None = None
    """What equal requests have in common, where the parameters do not hold all of it. It may be of any size."""
    priority: int = 0
    """The relay launches jobs of a higher priority first. The priority is not part of what is asked for: a repeated
    request may have another one."""
    by: str | None = None
    address: str | None = None
    file: SentFile | None = None

    @property
    def actor(self) -> Actor:
        return Actor(self.by or self.owner, self.origin, self.address, self.request_id)


@dataclass(frozen=True)
class Submitted:
    """The job of a request, and whether the request made it."""

    job: Job
    created: bool


def submit(connection: Connection, kinds: Mapping[str, Any], request: Request) -> Submitted:
    """Return the job of a request: a new job, or the job of the first request if this one repeats it."""
    kind = kinds[request.kind]
    if not isinstance(request.params, Mapping):
        raise InvalidInput("params", f"must be a JSON object, not {type(request.params).__name__}")
    params = payload.encode("params", dict(request.params))
    values = {
        "kind": request.kind,
        "owner": payload.text("owner", request.owner),
        "origin": checked_origin(request.origin),
        "priority": checked_priority(request.priority),
        "params": params,
        "idempotency_key": optional_text("idempotency_key", request.idempotency_key),
        "request_hash": request_hash(request),
        "fail_fast": kind.fail_fast,
        "request_id": optional_text("request_id", request.request_id),
        "trace_parent": checked_trace(request.trace_parent),
        "address": optional_text("address", request.address),
        "file_id": None if request.file is None else request.file.file_id,
        "job_key": None if request.file is None else request.file.job_key,
    }
    if job := job_of(connection, "insert_job", values):
        audit.note(connection, request.actor, "submit", job.job_id)
        telling.submitted(job)
        return Submitted(job, created=True)
    row = connection.execute(queries.text("jobs", "job_of_idempotency_key"), values).fetchone()
    assert row is not None, "the insert met this key"
    job_key, known_hash = row
    if bytes(known_hash) != values["request_hash"]:
        raise IdempotencyConflict(str(request.idempotency_key), job_key)
    return Submitted(find(connection, job_key), created=False)


def find_by_key(connection: Connection, owner: str, idempotency_key: str) -> Job | None:
    """Return the job that this owner submitted with this idempotency key, if there is one."""
    values = {"owner": owner, "idempotency_key": idempotency_key}
    row = connection.execute(queries.text("jobs", "job_of_idempotency_key"), values).fetchone()
    return None if row is None else find(connection, row[0])


def request_hash(request: Request) -> bytes:
    identity, most = request.identity, sys.maxsize
    if identity is None:
        identity, most = request.params, 2 * payload.MAX_BYTES
    body = payload.canonical("params", {"kind": request.kind, "params": dict(identity)}, most)
    return hashlib.sha256(body.encode() + b"\0" + request.digest).digest()


def digest_of(parts: Iterable[str]) -> bytes:
    """Return a digest of the parts and their order, for Request.digest."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()


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
    """Return the only owner whose jobs there are for this actor; None if there are all."""
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


def checked_origin(origin: str) -> str:
    if origin not in ORIGINS:
        raise InvalidInput("origin", f"{origin!r} is none of {', '.join(ORIGINS)}")
    return origin


def checked_priority(priority: int) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > HIGHEST_PRIORITY:
        raise InvalidInput(
            "priority", f"{priority!r} is no whole number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}"
        )
    return priority


def checked_trace(trace_parent: str | None) -> str | None:
    if trace_parent is not None and not TRACE_PARENT.fullmatch(str(trace_parent)):
        raise InvalidInput("trace_parent", "is not a W3C traceparent: 00-<32 hex>-<16 hex>-<2 hex>, ids not all zero")
    return trace_parent


def optional_text(field: str, value: str | None) -> str | None:
    return None if value is None else payload.text(field, value)


def set_result(connection: Connection, job_id: int, result: dict[str, Any]) -> None:
    """Keep the result of a job that ended before its time."""
    values = {"job_id": job_id, "result": payload.encode("result", result)}
    connection.execute(queries.text("jobs", "set_result"), values)
