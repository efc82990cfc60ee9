"""Grids as files: they are read from the database as quickly as the client takes them."""

import itertools
from collections.abc import Generator
from threading import BoundedSemaphore

from fastapi.responses import StreamingResponse

from bulk_pipelines.api.problems import Refusal

AT_ONCE = 4
"""How many one process streams at once. Each holds a connection to the database for as long as its client likes."""


def streamed(slots: BoundedSemaphore, pieces: Generator[bytes], media_type: str, name: str) -> StreamingResponse:
    """Return an answer of these pieces. An error before the first of them is answered like any other; one behind it
    breaks the answer off, so that no client takes it for whole."""
    if not slots.acquire(blocking=False):
        said = f"{AT_ONCE} grids are streamed by this process already"
        raise Refusal("unavailable", said, headers={"Retry-After": "1"})
    # A generator that has begun is closed when nobody holds it any more, so the slot is free however the answer ends.
    held = releasing(slots, pieces)
    first = next(held, b"")
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(itertools.chain((first,), held), media_type=media_type, headers=headers)


def releasing(slots: BoundedSemaphore, pieces: Generator[bytes]) -> Generator[bytes]:
    try:
        yield from pieces
    finally:
        pieces.close()
        slots.release()
