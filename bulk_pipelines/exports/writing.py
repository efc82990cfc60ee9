"""An export as a file: published whole, or not at all."""

import hashlib
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from sqlalchemy import Engine

from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.exports.streaming import Tally, never, stream
from bulk_pipelines.storage.contract import Storage


@dataclass(frozen=True)
class ExportResult:
    rows: int
    """As many as PostgreSQL says the query has."""
    bytes: int
    sha256: str
    location: str
    duration: float
    """Seconds."""
    rows_per_second: float


def unwatched(_tally: Tally) -> None:
    pass


def write(
    engine: Engine,
    request: ExportRequest,
    storage: Storage,
    key: str,
    *,
    connections: int | None = None,
    cancelled: Callable[[], bool] = never,
    progress: Callable[[Tally], None] = unwatched,
) -> ExportResult:
    """Export to that file. An error, or `cancelled` saying yes, leaves nothing behind and a former file in place.

    `progress` is told after each piece how far the export has come.
    """
    started = time.monotonic()
    tally, digest = Tally(), hashlib.sha256()
    pieces = stream(engine, request, connections=connections, cancelled=cancelled, tally=tally)
    with storage.publish(key) as sink, closing(pieces):
        for piece in pieces:
            sink.write(piece)
            digest.update(piece)
            progress(tally)
    duration = time.monotonic() - started
    return ExportResult(
        rows=tally.rows,
        bytes=tally.bytes,
        sha256=digest.hexdigest(),
        location=storage.url_of(key),
        duration=duration,
        rows_per_second=tally.rows / duration,
    )
