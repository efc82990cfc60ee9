"""Submitting imports, and imports of the rejects of an import."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import dlq, jobs
from bulk_pipelines.engine.dlq import Wanted
from bulk_pipelines.engine.jobs import Job, Submitted
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.imports import ending, progress, rejects, replaying, undo
from bulk_pipelines.imports.asked import Asked, AskedFile, Options
from bulk_pipelines.imports.kinds import KINDS
from bulk_pipelines.imports.names import name_of
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.storage import addresses, locations
from bulk_pipelines.storage.access import Access

Connection = psycopg.Connection[Any]


def submit(
    connection: Connection,
    asked: Asked,
    *,
    owner: str,
    origin: str,
    idempotency_key: str | None = None,
    request_id: str | None = None,
    priority: int = 0,
) -> Submitted:
    request = jobs.Request(
        name_of(asked.resource), owner, asked.as_params(), origin, idempotency_key, request_id, priority=priority
    )
    return jobs.submit(connection, KINDS, request)


def submit_drop(
    connection: Connection, source: str, files: Sequence[tuple[str, int, str, list[str]]], **rule: str | None
) -> tuple[int, str]:
    """For files that were dropped at a source: each its address, size, the version that was taken, and the contents it
    was imported with before. `rule` holds resource, mode, format, on_error, and the folder of this machine that they
    lie `within`."""
    options = Options(
        resource=rule["resource"] or "",
        mode=rule["mode"] or "insert",
        format=rule["format"],
        on_error=rule["on_error"] or "continue",
        within=rule["within"],
    )
    asked = options.asked(tuple(AskedFile(url, size, tuple(known), version) for url, size, version, known in files))
    job = submit(connection, asked, owner=source, origin="sensor").job
    return job.job_id, job.job_key


def local_file(source: str) -> AskedFile:
    """A source as a person names it: of a local file, the whole path and the size."""
    address = addresses.parse(source, "source")
    if address.scheme != "file":
        return AskedFile(source)
    path = Path(address.path)
    return AskedFile(str(path), path.stat().st_size if path.is_file() else None)


def import_job(connection: Connection, job_key: str) -> Job:
    job = jobs.find(connection, job_key)
    if job.kind not in KINDS:
        raise InvalidInput("job", f"{job_key} is no import, it is of the kind {job.kind}")
    return job


def undoable(job: Job) -> Resource:
    """The resource of an import that can be taken back; `Conflict` says why it cannot."""
    asked = Asked.from_params(job.params)
    undo.check(asked.mode)
    if not job.finished:
        raise Conflict(f"job {job.job_key} is {job.status}: cancel it first, or wait for its end")
    return asked.declared


def replay(pool: Engine, job_key: str, folder: str, access: Access, *, origin: str) -> Submitted:
    """Run the rejects of an import that is over again, as an import of their own; once, and whoever asks for it, the
    replay belongs to the owner of the import."""
    key = f"replay of {job_key}"
    with transaction(pool) as connection:
        job = import_job(connection, job_key)
        if not job.finished:
            raise Conflict(f"job {job_key} is {job.status}: its rejects are not complete yet")
        if ending.may_go_on(job) and dlq.page(connection, Wanted(job_key), size=1):
            raise Conflict(
                f"job {job_key} has ranges in the DLQ: its rejects are not complete before they are tried again "
                f"(bulk dlq redrive --job {job_key}) or discarded (bulk dlq discard --job {job_key})"
            )
        before = jobs.find_by_key(connection, job.owner, key)
        if before is not None:
            return Submitted(before, created=False)
        first = Asked.from_params(job.params)
        files = progress.files(connection, job.job_id)
        if not rejects.count(connection, job.job_id):
            removed = ", retention has removed them" if (job.result or {}).get("rejected") else ""
            raise Conflict(f"job {job_key} has no rejected records to run again{removed}")
    with locations.folder(folder, access, "BULK_LANDING_URL") as storage, transaction(pool) as connection:
        written = replaying.write(storage, job_key, files, rejects.every(connection, job.job_id))
    if not written:
        raise Conflict(f"none of the rejected records of job {job_key} was kept whole: they were too large")
    asked = Asked(
        first.resource,
        tuple(written),
        first.mode,
        match_on=first.match_on,
        on_error=first.on_error,
        replay_of=job_key,
    )
    with transaction(pool) as connection:
        return submit(connection, asked, owner=job.owner, origin=origin, idempotency_key=key)
