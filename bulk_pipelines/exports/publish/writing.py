"""Writing an export to a file, which is published whole or not at all."""

import hashlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass

from sqlalchemy import Engine

from bulk_pipelines.exports.read.preview import Record
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.exports.streaming import Tally, never, stream
from bulk_pipelines.storage.contract import Storage


@dataclass(frozen=True)
class ExportResult:
    rows: int
    """How many rows the file has, which is as many as PostgreSQL counted."""
    bytes: int
    sha256: str
    location: str
    duration: float
    """How many seconds the export took."""
    rows_per_second: float
    preview: tuple[Record, ...] = ()


def unwatched(_tally: Tally) -> None:
    pass


def unguarded(_result: ExportResult) -> AbstractContextManager[object]:
    return nullcontext()


def write(
    engine: Engine,
    request: ExportRequest,
    storage: Storage,
    key: str,
    *,
    cancelled: Callable[[], bool] = never,
    progress: Callable[[Tally], None] = unwatched,
    publishing: Callable[[ExportResult], AbstractContextManager[object]] = unguarded,
    preview: int = 0,
) -> ExportResult:
    """Export to the file of this key. If there is an error, or `cancelled` returns true, nothing is left behind, and an
    earlier file of that name stays in place.

    `progress` is called after each piece with how far the export has come. `publishing` makes a context that is entered
    when everything is written and left when the file is published: an error on entering it is the last way to stop the
    publication.
    """
    started = time.monotonic()
    tally, digest = Tally(), hashlib.sha256()

    def result() -> ExportResult:
        duration = time.monotonic() - started
        return ExportResult(
            rows=tally.rows,
            bytes=tally.bytes,
            sha256=digest.hexdigest(),
            location=storage.url_of(key),
            duration=duration,
            rows_per_second=tally.rows / duration,
            preview=tuple(tally.preview),
        )

    pieces = stream(engine, request, cancelled=cancelled, tally=tally, preview=preview)
    with ExitStack() as guard, storage.publish(key) as sink, closing(pieces):
        for piece in pieces:
            sink.write(piece)
            digest.update(piece)
            progress(tally)
        guard.enter_context(publishing(result()))
    return result()
