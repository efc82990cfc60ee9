"""Receiving a file in several requests. What arrives is stored in parts of some megabytes, each of them a file of its
own, so that hardly anything is lost when a connection breaks or a process dies."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.errors import IdempotencyConflict
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.errors import InvalidInput, OverQuota
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.plan.land import landing as landed_files
from bulk_pipelines.imports.request import Options, RequestedFile, kind_name
from bulk_pipelines.imports.sent import uploads
from bulk_pipelines.imports.sent.digests import DigestMismatch
from bulk_pipelines.imports.sent.receiving import Admit, kept_alive
from bulk_pipelines.imports.sent.uploads import TakenOver, Upload
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import OverLimit

PART_BYTES = 16 << 20
MOST_PARTS = 20_000
ROWS = "rows"
"""What an upload of rows that are to be processed has in its request, in place of the options of an import."""


def append(pool: Engine, chosen: Settings, upload: Upload, pieces: Iterable[bytes], count: Admit) -> Upload:
    """Append what arrives, and return the upload as it is then. `count` counts what is kept for its owner. If the
    pieces end with an error, what came before it is kept, unless it was not what its digest said."""
    before = upload
    with locations.folder(landed_files.place(chosen), access_of(chosen), "BULK_LANDING_URL") as storage:
        try:
            for part in in_parts(kept_alive(pool, upload, pieces), room_of(upload, chosen)):
                if len(upload.part_terms) >= MOST_PARTS:
                    raise OverLimit("upload", f"has {MOST_PARTS} parts: send larger ones")
                upload = add(pool, storage, upload, part, count)
        except DigestMismatch:
            with transaction(pool) as connection:
                uploads.drop_parts(connection, before)
            storage.delete(*upload.parts[len(before.part_terms) :])
            raise
    return upload


def add(pool: Engine, storage: Storage, upload: Upload, part: bytes, count: Admit) -> Upload:
    """Store a part, and note it. Nothing is left of one that comes too late, or is more than the owner may send."""
    name = upload.part(len(upload.part_terms) + 1, upload.term)
    storage.put(name, part)
    try:
        with transaction(pool) as connection:
            count(connection, len(part))
            return uploads.add_part(connection, upload, len(part))
    except (OverQuota, TakenOver):
        storage.delete(name)
        raise


def room_of(upload: Upload, chosen: Settings) -> int:
    """Return how many more bytes the upload may have."""
    most = chosen.landing_max_bytes if upload.length is None else min(upload.length, chosen.landing_max_bytes)
    return most - upload.bytes


def in_parts(pieces: Iterable[bytes], room: int) -> Iterator[bytes]:
    """Yield the bytes in parts. What came before an error is a part, too; then the error is raised."""
    waiting: list[bytes] = []
    size = arrived = 0
    try:
        for piece in pieces:
            arrived += len(piece)
            if arrived > room:
                raise OverLimit("upload", f"is longer than was said, or than is allowed, by {arrived - room:,} bytes")
            if piece:
                waiting.append(piece)
            size += len(piece)
            if size >= PART_BYTES:
                yield b"".join(waiting)
                waiting, size = [], 0
    except Exception:
        if waiting:
            yield b"".join(waiting)
        raise
    if waiting:
        yield b"".join(waiting)


def submit(pool: Engine, chosen: Settings, upload: Upload, sender: Sender, admit: Admit) -> Submitted:
    """Submit the import of an upload that is whole. Its parts are put together when it is planned. Their bytes were
    counted when they came."""
    if upload.length is not None and upload.bytes != upload.length:
        raise InvalidInput(
            "Upload-Complete", f"{upload.bytes:,} bytes of {upload.length:,} have arrived: the upload is not complete"
        )
    options = options_of(upload)
    address = f"{landed_files.place(chosen).rstrip('/')}/{upload.whole}"
    request = options.request((RequestedFile(address, upload.bytes, name=upload.shown),))
    sender = replace(sender, file=upload.file, idempotency_key=upload.idempotency_key)
    with transaction(pool) as connection:
        admit(connection, 0)
        submitted = submission.submit(connection, request, sender, identity(options, upload))
        uploads.submit(connection, upload, sent=upload.bytes)
    return submitted


def repeated(connection: Connection, job: Job, wanted: Mapping[str, Any], length: int | None) -> Job:
    """Return the job of an idempotency key if an upload of this request may be what it came from. Else raise
    `IdempotencyConflict`: what the upload is going to send would be lost."""
    before = uploads.of_job(connection, job.job_key)
    if ROWS in wanted:
        if before is None or before.request != wanted or length not in (None, before.bytes):
            raise IdempotencyConflict(str(job.idempotency_key), job.job_key)
        return job
    request = Options.from_json(wanted["options"]).request((RequestedFile("repeated"),))
    same = (
        before is not None
        and job.kind == kind_name(request.resource)
        and request.terms().items() <= job.params.items()
        and length in (None, before.bytes)
        and (not before.resumable or told(before.request) == told(wanted))
    )
    if not same:
        raise IdempotencyConflict(str(job.idempotency_key), job.job_key)
    return job


def told(wanted: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a request says of the bytes of its file."""
    return wanted["compression"], wanted["digests"]


def options_of(upload: Upload) -> Options:
    return Options.from_json(upload.request["options"])


def identity(options: Options, upload: Upload) -> dict[str, object]:
    """Return what stands for this request when its key is used again: only this upload itself."""
    return options.request((RequestedFile(f"upload/{upload.upload_id}"),)).identity()
