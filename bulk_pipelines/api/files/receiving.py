"""The bodies of requests as they arrive. The thread that works on a body reads it at its own pace, and never holds all
of it in memory."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import anyio.from_thread
import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Request
from starlette.requests import ClientDisconnect

from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.api.serving.bodies import streamed

PIECE_BYTES = 1 << 20
BEAT_SECONDS = 2.0
"""The longest time until whoever reads a body gets what has come of it, even if that is nothing."""
SILENT_SECONDS = 30.0
"""The longest time that a sender may be silent."""
PATIENT_SECONDS = 60.0
SLOWEST = 1_000
"""The least bytes a second at which a body must have come after `PATIENT_SECONDS`, because it holds a thread."""
AT_ONCE = 100
"""How many bodies one process receives at once; others wait."""

Result = TypeVar("Result")


class Body:
    """The body of a request."""

    def __init__(self, request: Request) -> None:
        streamed(request.scope)
        self.receive = request.receive
        self.arrived = 0
        self.waited = 0.0
        """The seconds for which the thread has waited for the sender. The time of its own work does not count."""
        self.silent = 0.0
        self.over = False

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces of about a megabyte, or smaller ones when it comes slowly: a piece without a byte
        says that the sender is still waited for. This is called in a thread of its own, which waits for them. If the
        sender goes away, what came before is yielded, and then `ClientDisconnect` is raised."""
        while not self.over:
            gathered, failure = anyio.from_thread.run(self.gather)
            yield gathered
            if failure is not None:
                raise failure

    async def gather(self) -> tuple[bytes, Exception | None]:
        """Return the next bytes, and the error that ended them, if one did."""
        found: list[bytes] = []
        size = 0
        began = time.monotonic()
        try:
            while not self.over and size < PIECE_BYTES and (left := began + BEAT_SECONDS - time.monotonic()) > 0:
                chunk = await self.chunk(left)
                found.append(chunk)
                size += len(chunk)
                self.refuse_slow()
        except (ClientDisconnect, Refusal) as error:
            return b"".join(found), error
        return b"".join(found), None

    async def chunk(self, seconds: float) -> bytes:
        """Return what comes next, or nothing if it takes longer."""
        began = time.monotonic()
        try:
            # This can be cut short without a loss, which a generator, like `request.stream()`, cannot.
            message = await asyncio.wait_for(self.receive(), seconds)
        except TimeoutError:
            self.silent += time.monotonic() - began
            return b""
        finally:
            self.waited += time.monotonic() - began
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self.silent = 0.0
        self.over = not message.get("more_body", False)
        chunk: bytes = message.get("body", b"")
        self.arrived += len(chunk)
        return chunk

    def refuse_slow(self) -> None:
        if self.silent >= SILENT_SECONDS:
            raise Refusal("too-slow", f"nothing came for {SILENT_SECONDS:.0f} seconds")
        if not self.over and self.waited > PATIENT_SECONDS and self.arrived < SLOWEST * self.waited:
            raise Refusal("too-slow", f"the body comes at less than {SLOWEST:,} bytes a second")


async def in_a_thread(request: Request, work: Callable[[], Result]) -> Result:
    """Do work that reads the body, in a thread. Such work has threads of its own, so it takes none from those that
    answer."""
    limiter: CapacityLimiter = request.app.state.receiving
    return await anyio.to_thread.run_sync(work, limiter=limiter)
