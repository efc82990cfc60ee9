"""Requests for jobs, and how they become jobs: an equal request with the same idempotency key names the same job."""

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.errors import IdempotencyConflict
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import audit, telling
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job, find, job_of, optional_text
from bulk_pipelines.errors import InvalidInput

ORIGINS = ("api", "sensor", "ui", "cli")
TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
HIGHEST_PRIORITY = 100


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
