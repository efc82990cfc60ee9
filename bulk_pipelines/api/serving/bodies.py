"""Bounds that spare the endpoints three cares: bodies that fill the memory, NUL, which PostgreSQL's texts cannot hold,
and headers that say two things. An endpoint that reads its body piece by piece lifts the limit; every other body is
small."""

import asyncio
import time

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bulk_pipelines.api.problems import Refusal, answered

LARGEST = 32 << 20
"""How many bytes a body may have that is held in memory: a hundred thousand inputs of a distribution, and to spare."""
HELD_AT_MOST = 256 << 20
"""How many bytes of such bodies one process holds at once."""
SILENT_SECONDS = 30.0
"""The longest time that the sender of such a body may be silent."""
PATIENT_SECONDS = 60.0
SLOWEST = 1_000
"""The least bytes a second at which a body must have come after `PATIENT_SECONDS`."""
ONCE = {
    b"authorization",
    b"content-encoding",
    b"content-type",
    b"idempotency-key",
    b"if-range",
    b"last-event-id",
    b"range",
    b"upload-complete",
    b"upload-length",
    b"upload-offset",
}
"""Headers that say one thing. Where one is there twice, a proxy may have gone by the other one. The parser refuses a
second Content-Length by itself."""
LIFTED = "bulk.body_is_streamed"


def streamed(scope: Scope) -> None:
    """Lift the limit for this request. Whoever calls this reads the body piece by piece."""
    scope[LIFTED] = True


class Arriving:
    """A body that is held in memory, as far as it has come."""

    def __init__(self, said: str) -> None:
        self.said = int(said) if said.isdigit() and len(said) < 20 else 0
        self.bytes = 0
        self.over = False
        self.began = time.monotonic()

    async def next(self, receive: Receive) -> Message:
        """Return what comes next. Raise a refusal if it is too much, or comes too slowly."""
        if self.said > LARGEST:
            raise too_large()
        if self.over:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), SILENT_SECONDS)
        except TimeoutError:
            raise Refusal("too-slow", f"nothing came for {SILENT_SECONDS:.0f} seconds") from None
        self.bytes += len(message.get("body", b""))
        self.over = not message.get("more_body", False)
        seconds = time.monotonic() - self.began
        if self.bytes > LARGEST:
            raise too_large()
        if not self.over and seconds > PATIENT_SECONDS and self.bytes < SLOWEST * seconds:
            raise Refusal("too-slow", f"the body comes at less than {SLOWEST:,} bytes a second")
        return message


class Bounded:
    """The application, with an end to bodies that would fill the memory, or never end. The refusal is raised where the
    endpoint reads its body, so it is answered like any other error."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            refused = answered("invalid-input", "the address has a NUL character in it", Request(scope))
            await refused(scope, receive, send)
            return
        once = [name for name, _ in scope["headers"] if name in ONCE]
        if len(once) > len(set(once)):
            twice = next(name for name in once if once.count(name) > 1).decode().title()
            refused = answered("invalid-input", f"{twice}: is there more than once", Request(scope), field=twice)
            await refused(scope, receive, send)
            return
        body = Arriving(Headers(scope=scope).get("content-length", ""))

        async def receive_bounded() -> Message:
            if LIFTED in scope:
                return await receive()
            before = body.bytes
            try:
                message = await body.next(receive)
            finally:
                self.held += body.bytes - before
            if self.held > HELD_AT_MOST:
                raise Refusal("unavailable", "too much is being sent at once", headers={"Retry-After": "5"})
            return message

        try:
            await self.app(scope, receive_bounded, send)
        finally:
            self.held -= body.bytes


def too_large() -> Refusal:
    return Refusal("too-large", f"the body is larger than {LARGEST:,} bytes")
