"""Receiving a file in one piece: it is landed while it arrives, in constant memory, and its job is submitted when it is
whole. If it breaks off, nothing of it is left."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.errors import BulkError, Conflict, InvalidInput
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.plan.land import landing as landed_files
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.imports.sent import clearing, uploads
from bulk_pipelines.imports.sent.uploads import Upload
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import landing, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.compression import Compression
from bulk_pipelines.storage.contract import Entry
from bulk_pipelines.storage.landing import Landed

PUT_OFF_SECONDS = 5.0

Admit = Callable[[Connection, int], None]
"""Lets the owner send so many bytes and have one more job, in the transaction that submits it, or raises an error."""


class Said(Protocol):
    """What is asked for with a file."""

    @property
    def compression(self) -> str | None:
        """What the file is said to be compressed by."""
        ...


Asked = TypeVar("Asked", bound=Said)
Asked_co = TypeVar("Asked_co", bound=Said, covariant=True)


class Arrival(Protocol[Asked_co]):
    """A file that arrives. Its options and its name may stand behind it, so they are known when it was read."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes in pieces. One without a byte comes every few seconds while the sender is waited for."""
        ...

    def options(self) -> Asked_co: ...

    @property
    def name(self) -> str | None: ...

    @property
    def priority(self) -> int: ...

    @property
    def compression(self) -> Compression | None:
        """What the sender says of the whole file's compression."""
        ...


@dataclass(frozen=True)
class Content:
    """A file that was sent: where it was landed, and what it is."""

    url: str
    bytes: int
    name: str
    """What the file is called in messages."""
    sha256: str
    """The hash of the landed bytes."""
    sent_sha256: str
    """The hash of the bytes that were sent."""


Submit = Callable[[Connection, Asked, Content, Sender], Submitted]
"""Submits the job that is asked for with a file. Equal requests have the options and the bytes that were sent in
common, wherever those were landed."""


def import_of(connection: Connection, options: Options, content: Content, sender: Sender) -> Submitted:
    request = options.request((RequestedFile(content.url, content.bytes, name=content.name),))
    return submission.submit(connection, request, sender, identity(options, content.sent_sha256))


def import_sent(pool: Engine, chosen: Settings, arrival: Arrival[Options], sender: Sender, admit: Admit) -> Submitted:
    """Receive a file and submit its import."""
    return receive(pool, chosen, arrival, sender, admit, import_of)


def receive(
    pool: Engine,
    chosen: Settings,
    arrival: Arrival[Asked],
    sender: Sender,
    admit: Admit,
    submit: Submit[Asked],
) -> Submitted:
    """Receive a file and submit its job. If there is a job of the same idempotency key, the file is only compared with
    the one that came first."""
    with transaction(pool) as connection:
        begun = uploads.begin(connection, sender.owner, {}, idempotency_key=sender.idempotency_key)
    if isinstance(begun, Job):
        return repeated(pool, arrival, sender, submit)
    try:
        landed = received(pool, chosen, begun, arrival)
        with transaction(pool) as connection:
            admit(connection, landed.source_bytes)
            submitted = become(connection, begun, landed, arrival, sender, submit)
    except BaseException:
        # The job may be there all the same, if it was the answer to its commit that was lost. Without a database
        # nothing is removed: a later pass knows.
        with suppress(BulkError):
            clearing.discard(pool, chosen, begun)
        raise
    if not submitted.created:  # a request of another form has used the key in the meantime
        with suppress(BulkError):
            clearing.discard(pool, chosen, begun)
    return submitted


def received(pool: Engine, chosen: Settings, upload: Upload, arrival: Arrival[Said]) -> Landed:
    """Land the file while it arrives."""
    with locations.folder(landed_files.place(chosen), access_of(chosen), "BULK_LANDING_URL") as into:
        landed = landing.land_stream(
            kept_alive(pool, upload, arrival.pieces()),
            Entry("sent", 0, None, upload.upload_id),
            "the file",
            into,
            upload.whole,
            landing.limits_of(chosen),
            arrival.compression,
        )
    told = arrival.options().compression
    if told is not None and told != landed.compression:
        raise InvalidInput("compression", f"the file is {landed.compression}, and was said to be {told}")
    return landed


def kept_alive(pool: Engine, upload: Upload, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same pieces, and now and then note that the upload still arrives, also while a slow sender is waited
    for. Raise `TakenOver` if somebody has given it up meanwhile."""
    noted = time.monotonic()
    for piece in pieces:
        if piece:
            yield piece
        if time.monotonic() - noted > PUT_OFF_SECONDS:
            with transaction(pool) as connection:
                uploads.put_off(connection, upload)
            noted = time.monotonic()


def become(
    connection: Connection,
    upload: Upload,
    landed: Landed,
    arrival: Arrival[Asked],
    sender: Sender,
    submit: Submit[Asked],
) -> Submitted:
    """Let a landed file become a job, in one transaction."""
    name = uploads.shown_name(arrival.name) or upload.shown
    content = Content(landed.url, landed.bytes, name, landed.sha256, landed.source_sha256)
    sender = replace(sender, file=upload.file, priority=arrival.priority)
    submitted = submit(connection, arrival.options(), content, sender)
    if submitted.created:
        uploads.submit(connection, upload, sent=landed.source_bytes, landed=landed, name=arrival.name)
    return submitted


def identity(options: Options, content: str) -> dict[str, object]:
    """Return what equal requests have in common: what is asked for, and the bytes that were sent."""
    return options.request((RequestedFile(f"sha256/{content}"),)).identity()


def repeated(pool: Engine, arrival: Arrival[Asked], sender: Sender, submit: Submit[Asked]) -> Submitted:
    """Compare a request whose key stands for a job already with the first one. Nothing is stored of the file."""
    sent = hashlib.sha256()
    for piece in arrival.pieces():
        sent.update(piece)
    with transaction(pool) as connection:
        content = Content("repeated", 0, "repeated", "", sent.hexdigest())
        submitted = submit(connection, arrival.options(), content, sender)
        if submitted.created:  # which rolls back: there would be nothing to import
            raise Conflict("retention has just removed the job of this idempotency key: send the request again")
    return submitted
