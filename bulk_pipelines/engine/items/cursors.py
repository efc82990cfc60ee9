"""Cursors: places in a listing, signed, so that nobody makes one up. A cursor is good for one listing only."""

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import InvalidInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SIGNATURE_BYTES = 16


@dataclass(frozen=True)
class Position:
    """A place in the order of items."""

    updated_at: datetime
    item_id: int


START = Position(EPOCH, 0)


def cursor_secret(connection: Connection) -> bytes:
    row = connection.execute(queries.text("pages", "cursor_secret")).fetchone()
    assert row is not None, "the migration wrote it"
    return bytes(row[0])


def encode(secret: bytes, scope: str, position: Position) -> str:
    """Return the position as an opaque, signed cursor. Its time is in UTC, whatever the session's time zone."""
    return signed(secret, scope, [(position.updated_at - EPOCH) // MICROSECOND, position.item_id])


def decode(secret: bytes, scope: str, cursor: str) -> Position:
    """Return the position in a cursor. Raises InvalidInput for a cursor that was not made for this listing."""
    microseconds, item_id = opened(secret, scope, cursor)
    return Position(EPOCH + microseconds * MICROSECOND, item_id)


def signed(secret: bytes, scope: str, place: list[Any]) -> str:
    body = json.dumps(place).encode()
    return unpadded(signature(secret, scope, body) + body)


def opened(secret: bytes, scope: str, cursor: str) -> list[Any]:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise InvalidInput("after", "is not a cursor of a page") from None
    if unpadded(raw) != cursor:  # base64 has several spellings of the same bytes
        raise InvalidInput("after", "is not a cursor of a page")
    said, body = raw[:SIGNATURE_BYTES], raw[SIGNATURE_BYTES:]
    if not hmac.compare_digest(said, signature(secret, scope, body)):
        raise InvalidInput("after", "is not a cursor of this listing: take it from the page before, with equal filters")
    place: list[Any] = json.loads(body)
    return place


def unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def signature(secret: bytes, scope: str, body: bytes) -> bytes:
    return hmac.digest(secret, scope.encode() + b"\0" + body, hashlib.sha256)[:SIGNATURE_BYTES]
