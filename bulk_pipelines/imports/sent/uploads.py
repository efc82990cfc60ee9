"""Uploads: files on their way to an import. An upload is one row from its first byte until its import is submitted, so
whichever process it arrives at may die."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.errors import InFlight
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import SentFile
from bulk_pipelines.errors import Conflict, NotFound
from bulk_pipelines.storage.landing import Landed

SENDING_SECONDS = 30.0
"""How long an upload in one piece, or the first request of a resumable one, is waited for when its sender is
silent, because the process may have died."""
RESUMABLE_SECONDS = 24 * 3_600.0
"""How long a resumable upload is kept after its last part."""
LONGEST_NAME = 200


@dataclass(frozen=True)
class Upload:
    """A file on its way."""

    upload_id: str
    owner: str
    job_key: str
    idempotency_key: str | None
    request: dict[str, Any]
    name: str | None
    state: str
    resumable: bool
    told: bool
    """Whether the sender of a resumable upload knows its address."""
    bytes: int
    part_terms: list[int]
    length: int | None
    term: int
    landed: str | None
    landed_version: str | None
    landed_bytes: int | None
    sha256: str | None
    expires_at: datetime

    @property
    def file(self) -> SentFile:
        return SentFile(self.upload_id, self.job_key)

    @property
    def parts(self) -> list[str]:
        """The names of the parts in the landing storage, in their order."""
        return [self.part(index, term) for index, term in enumerate(self.part_terms, 1)]

    def part(self, index: int, term: int) -> str:
        return f"{self.job_key}/sent-{index:06}-{term}"

    @property
    def whole(self) -> str:
        """The name of the landed file of an upload in one piece."""
        return f"{self.job_key}/000001-sent"

    @property
    def shown(self) -> str:
        """What the file is called in messages."""
        return self.name or f"the upload {self.upload_id}"

    @property
    def kept_seconds(self) -> float:
        """How long the upload is kept when nothing comes. Before its sender knows its address, nobody could go on
        with it."""
        return RESUMABLE_SECONDS if self.told else SENDING_SECONDS

    @property
    def submitted(self) -> bool:
        return self.state == "SUBMITTED"


class TakenOver(Conflict):
    """Another request goes on with this upload, or nobody does any more."""

    def __init__(self, upload_id: str) -> None:
        super().__init__(f"the upload {upload_id} was taken over by another request, or given up")


def begin(
    connection: Connection,
    owner: str,
    request: Mapping[str, Any],
    *,
    idempotency_key: str | None = None,
    name: str | None = None,
    resumable: bool = False,
    length: int | None = None,
) -> Upload | Job:
    """Begin an upload. Return the job instead if there is one of this idempotency key; raise `InFlight` while another
    upload with the key arrives. A resumable one of the same request, whose sender was told its address and may have
    lost it, makes room for this one."""
    values = {
        "upload_id": f"U{secrets.token_hex(16)}",
        "owner": payload.text("owner", owner),
        "idempotency_key": None if idempotency_key is None else payload.text("Idempotency-Key", idempotency_key),
        "request": json.dumps(dict(request)),
        "name": shown_name(name),
        "resumable": resumable,
        "length": length,
        "seconds": SENDING_SECONDS,
    }
    if idempotency_key is not None:
        before = submission.find_by_key(connection, owner, idempotency_key)
        if before is not None:
            return before
        connection.execute(queries.text("uploads", "free_key"), values)
    with connection.cursor(row_factory=class_row(Upload)) as cursor:
        begun = cursor.execute(queries.text("uploads", "begin"), values).fetchone()
    if begun is None:
        assert idempotency_key is not None, "only a key can be in use"
        return in_use(connection, owner, idempotency_key)
    if idempotency_key is not None:
        # The upload that had the key may have become a job while this one waited for it.
        before = submission.find_by_key(connection, owner, idempotency_key)
        if before is not None:
            give_up(connection, begun.upload_id)
            return before
    return begun


def refuse_arriving(connection: Connection, owner: str, idempotency_key: str) -> None:
    """Raise `InFlight` while an upload with the key arrives."""
    values = {"owner": owner, "idempotency_key": idempotency_key}
    connection.execute(queries.text("uploads", "free_key"), values | {"request": None})
    row = connection.execute(queries.text("uploads", "arriving"), values).fetchone()
    if row is not None:
        raise InFlight(idempotency_key, min(max(row[0], 1.0), SENDING_SECONDS))


def in_use(connection: Connection, owner: str, idempotency_key: str) -> Job:
    """Return the job of a key that another upload had a moment ago; raise `InFlight` if it still has the key."""
    refuse_arriving(connection, owner, idempotency_key)
    before = submission.find_by_key(connection, owner, idempotency_key)
    if before is None:
        raise InFlight(idempotency_key, 1.0)  # it was given up at this moment
    return before


def shown_name(name: str | None) -> str | None:
    """Return the name of a file as it may be shown: its last part, shortened. No file of ours is ever called so."""
    if not name:
        return None
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(each if each.isprintable() else "�" for each in last)[:LONGEST_NAME] or None


def find(connection: Connection, upload_id: str, owner: str | None) -> Upload:
    values = {"upload_id": payload.text("upload", upload_id), "owner": owner}
    with connection.cursor(row_factory=class_row(Upload)) as cursor:
        found = cursor.execute(queries.text("uploads", "find"), values).fetchone()
    if found is None or found.state == "CLEARING":
        raise NotFound(f"there is no upload {upload_id!r}, or it is over")
    return found


def of_job(connection: Connection, job_key: str) -> Upload | None:
    with connection.cursor(row_factory=class_row(Upload)) as cursor:
        return cursor.execute(queries.text("uploads", "of_job"), {"job_key": job_key}).fetchone()


def put_off(connection: Connection, upload: Upload) -> None:
    """Note that the upload still arrives. Raise `TakenOver` if it was given up meanwhile."""
    values = {"upload_id": upload.upload_id, "term": upload.term, "seconds": upload.kept_seconds}
    if connection.execute(queries.text("uploads", "put_off"), values).fetchone() is None:
        raise TakenOver(upload.upload_id)


def tell(connection: Connection, upload: Upload) -> None:
    """Note that the sender of a resumable upload is told its address. Raise `TakenOver` if it was given up."""
    values = {"upload_id": upload.upload_id, "term": upload.term, "seconds": RESUMABLE_SECONDS}
    if connection.execute(queries.text("uploads", "tell"), values).fetchone() is None:
        raise TakenOver(upload.upload_id)


def take_over(connection: Connection, upload_id: str, owner: str | None) -> Upload | None:
    """Take a resumable upload over from whoever still sends to it. None when nothing arrives there any more."""
    values = {"upload_id": payload.text("upload", upload_id), "owner": owner, "seconds": SENDING_SECONDS}
    with connection.cursor(row_factory=class_row(Upload)) as cursor:
        return cursor.execute(queries.text("uploads", "take_over"), values).fetchone()


def submit(
    connection: Connection,
    upload: Upload,
    *,
    sent: int,
    landed: Landed | None = None,
    name: str | None = None,
) -> None:
    """Note in the transaction that submits a job that the upload is over. `landed` is the file that its bytes have
    become, unless the job's plan makes it."""
    values = {
        "upload_id": upload.upload_id,
        "term": upload.term,
        "landed": landed and landed.url,
        "landed_version": landed and landed.version,
        "landed_bytes": landed and landed.bytes,
        "sha256": landed and landed.sha256,
        "bytes": sent,
        "name": shown_name(name),
    }
    if connection.execute(queries.text("uploads", "submit"), values).fetchone() is None:
        raise TakenOver(upload.upload_id)


def add_part(connection: Connection, upload: Upload, size: int) -> Upload:
    """Note that the next part is stored. Raise `TakenOver` if that came too late."""
    values = {
        "upload_id": upload.upload_id,
        "term": upload.term,
        "parts": len(upload.part_terms),
        "bytes": size,
        "seconds": upload.kept_seconds,
    }
    with connection.cursor(row_factory=class_row(Upload)) as cursor:
        added = cursor.execute(queries.text("uploads", "add_part"), values).fetchone()
    if added is None:
        raise TakenOver(upload.upload_id)
    return added


def drop_parts(connection: Connection, upload: Upload) -> None:
    """Go back to this earlier state of the upload."""
    values = {
        "upload_id": upload.upload_id,
        "term": upload.term,
        "parts": len(upload.part_terms),
        "bytes": upload.bytes,
    }
    if connection.execute(queries.text("uploads", "drop_parts"), values).fetchone() is None:
        raise TakenOver(upload.upload_id)


def set_length(connection: Connection, upload: Upload, length: int) -> bool:
    """Note how long the upload is going to be. False if another length was said before, or more bytes are there."""
    values = {"upload_id": upload.upload_id, "term": upload.term, "length": length}
    return connection.execute(queries.text("uploads", "set_length"), values).fetchone() is not None


def give_up(connection: Connection, upload_id: str) -> bool:
    """Let the upload be cleared away. Its idempotency key is free at once. False if its import was submitted: then its
    files belong to a job."""
    connection.execute(queries.text("uploads", "give_up"), {"upload_id": upload_id})
    return connection.execute(queries.text("uploads", "submitted"), {"upload_id": upload_id}).fetchone() is None
