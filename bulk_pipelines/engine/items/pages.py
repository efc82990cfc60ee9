"""Pages of items in the order of `(updated_at, item_id)`: every page costs the same, and no row is missed.

An item's updated_at only grows, so a row that changes while somebody reads the pages moves to a later page, and is
shown there again. A row that has not been shown yet cannot slip behind the reader: its old place is ahead of the
reader, and its new place is later still.
"""

import base64
import binascii
import hashlib
import hmac
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import OPEN_ITEMS, ItemState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.telemetry import events

MOST = 1_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SIGNATURE_BYTES = 16


@dataclass(frozen=True)
class ItemRow:
    """An item as a page shows it."""

    item_id: int
    job_key: str
    item_key: str
    kind: str
    status: str
    attempt_count: int
    lease_owner: str | None
    lease_until: datetime | None
    due_at: datetime | None
    error_class: str | None
    error_message: str | None
    updated_at: datetime
    input_summary: str | None


@dataclass(frozen=True)
class Page:
    items: list[ItemRow]
    after: str | None
    """The cursor of the next page; None when this page was not full, and so was the last."""


@dataclass(frozen=True)
class Position:
    """A place in the order of items."""

    updated_at: datetime
    item_id: int


START = Position(EPOCH, 0)


def of_job(
    connection: Connection,
    job_key: str,
    *,
    statuses: Iterable[str] = OPEN_ITEMS,
    size: int = 100,
    after: str | None = None,
) -> Page:
    job = jobs.find(connection, job_key)
    return read(connection, "page_of_job", f"job:{job_key}", {"job_id": job.job_id}, statuses, size, after)


def of_owner(
    connection: Connection,
    owner: str,
    *,
    statuses: Iterable[str] = OPEN_ITEMS,
    size: int = 100,
    after: str | None = None,
) -> Page:
    values = {"owner": payload.text("owner", owner)}
    return read(connection, "page_of_owner", f"owner:{owner}", values, statuses, size, after)


def read(
    connection: Connection,
    query: str,
    scope: str,
    values: dict[str, Any],
    statuses: Iterable[str],
    size: int,
    after: str | None,
) -> Page:
    wanted = checked_statuses(statuses)
    limit = payload.size("size", size, MOST)
    secret = cursor_secret(connection)
    scope = f"{scope}:{','.join(wanted)}"
    position = START if after is None else decode(secret, scope, after)
    values |= {
        "statuses": wanted,
        "size": limit,
        "after_time": position.updated_at,
        "after_id": position.item_id,
    }
    with connection.cursor(row_factory=class_row(ItemRow)) as cursor:
        cursor.execute(queries.text("pages", query), values)
        rows = cursor.fetchall()
    if rows and events.told(logging.DEBUG):
        first, last = (f"{row.updated_at.isoformat()} {row.item_id}" for row in (rows[0], rows[-1]))
        events.debug("page read", rows=len(rows), first=first, last=last)
    full = len(rows) == limit
    return Page(rows, encode(secret, scope, Position(rows[-1].updated_at, rows[-1].item_id)) if full else None)


def checked_statuses(statuses: Iterable[str]) -> list[str]:
    """Check the statuses, and return each of them once, sorted: the same choice always gives the same cursor."""
    wanted = sorted({str(status) for status in statuses})
    if not wanted:
        raise InvalidInput("statuses", "is empty: name at least one")
    for status in wanted:
        if status not in ItemState.__members__:
            raise InvalidInput("statuses", f"{status!r} is none of {', '.join(ItemState)}")
    return wanted


def cursor_secret(connection: Connection) -> bytes:
    row = connection.execute(queries.text("pages", "cursor_secret")).fetchone()
    assert row is not None, "the migration wrote it"
    return bytes(row[0])


def encode(secret: bytes, scope: str, position: Position) -> str:
    """Return the position as an opaque, signed cursor, which is valid for this listing only. Its time is in UTC,
    whatever the session's time zone."""
    body = json.dumps([(position.updated_at - EPOCH) // MICROSECOND, position.item_id]).encode()
    return unpadded(signature(secret, scope, body) + body)


def unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(secret: bytes, scope: str, cursor: str) -> Position:
    """Return the position in a cursor. Raises InvalidInput for a cursor that was not made for this listing."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise InvalidInput("after", "is not a cursor of a page") from None
    if unpadded(raw) != cursor:  # base64 has several spellings of the same bytes
        raise InvalidInput("after", "is not a cursor of a page")
    signed, body = raw[:SIGNATURE_BYTES], raw[SIGNATURE_BYTES:]
    if not hmac.compare_digest(signed, signature(secret, scope, body)):
        raise InvalidInput("after", "is not a cursor of this listing: take it from the page before, with equal filters")
    microseconds, item_id = json.loads(body)
    return Position(EPOCH + microseconds * MICROSECOND, item_id)


def signature(secret: bytes, scope: str, body: bytes) -> bytes:
    return hmac.digest(secret, scope.encode() + b"\0" + body, hashlib.sha256)[:SIGNATURE_BYTES]
