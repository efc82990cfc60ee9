"""The bodies of requests as they arrive: read by a thread that works on them, at its pace, without being held in
memory."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import anyio.from_thread
import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Request
from starlette.requests import ClientDisconnect

from bulk_pipelines.api.bodies import streamed
from bulk_pipelines.api.problems import Refusal

PIECE_BYTES = 1 << 20
SILENT_SECONDS = 30.0
"""For how long a sender may be silent."""
PATIENT_SECONDS = 60.0
SLOWEST = 1_000
"""After `PATIENT_SECONDS`, a body must have come at so many bytes a second, because it holds a thread."""
AT_ONCE = 100
"""How many bodies one process receives at once; others wait."""

Result = TypeVar("Result")


class Body:
    """The body of a request."""

    def __init__(self, request: Request) -> None:
        streamed(request.scope)
        self.chunks: AsyncIterator[bytes] = request.stream()
        self.began = time.monotonic()
        self.arrived = 0
        self.over = False

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces of about a megabyte. This is called in a thread of its own, which waits for them. If
        the sender goes away, what came before is yielded, and then `ClientDisconnect` is raised."""
        while not self.over:
            gathered, failure = anyio.from_thread.run(self.gather)
            if gathered:
                yield gathered
            if failure is not None:
                raise failure

    async def gather(self) -> tuple[bytes, Exception | None]:
        """Return the next bytes, and the error that ended them, if one did."""
        found: list[bytes] = []
        size = 0
        try:
            while size < PIECE_BYTES:
                chunk = await asyncio.wait_for(anext(self.chunks), SILENT_SECONDS)
                found.append(chunk)
                size += len(chunk)
                self.arrived += len(chunk)
                self.refuse_slow()
        except StopAsyncIteration:
            self.over = True
        except TimeoutError:
            return b"".join(found), Refusal("too-slow", f"nothing came for {SILENT_SECONDS:.0f} seconds")
        except (ClientDisconnect, Refusal) as error:
            return b"".join(found), error
        return b"".join(found), None

    def refuse_slow(self) -> None:
        seconds = time.monotonic() - self.began
        if seconds > PATIENT_SECONDS and self.arrived < SLOWEST * seconds:
            raise Refusal("too-slow", f"the body comes at less than {SLOWEST:,} bytes a second")


async def in_a_thread(request: Request, work: Callable[[], Result]) -> Result:
    """Do the work that reads the body in a thread. There are threads enough for that beside those that answer."""
    limiter: CapacityLimiter = request.app.state.receiving
    return await anyio.to_thread.run_sync(work, limiter=limiter)
