"""The identity of a request: `X-Request-ID` and W3C `traceparent`. Each is taken from the request or made here, kept
with the job, and sent back."""

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import getrandbits

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bulk_pipelines.engine.jobs.submission import TRACE_PARENT
from bulk_pipelines.engine.measures import catalogue
from bulk_pipelines.engine.measures.recording import Measures
from bulk_pipelines.telemetry import context, events, spans

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
SHOWN = 200
NOBODY_LEFT = 499
"""What counts as the status of a request whose client went away before there was an answer."""
REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


@dataclass(frozen=True)
class Trace:
    """The ids by which a request is known in logs, in its job, and to the services that are called because of it."""

    request_id: str
    trace_parent: str
    caller: str | None = None
    """The trace context that the request came with."""


class Traced:
    """The application, with the identity of each request noted in `scope["state"]` and sent back with the answer. This
    stands around everything else, so that answers to errors bear the identity, too."""

    def __init__(self, app: ASGIApp, measures: Measures, clock: Callable[[], float] = time.monotonic) -> None:
        self.app = app
        self.measures = measures
        self.clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        trace = trace_of(scope["headers"])
        scope.setdefault("state", {})["trace"] = trace

        identity = (b"x-request-id", trace.request_id.encode()), (b"traceparent", trace.trace_parent.encode())
        status = NOBODY_LEFT
        begun = self.clock()

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *identity]
            await send(message)

        with (
            context.about(request_id=trace.request_id, trace_parent=trace.trace_parent),
            spans.request(f"{scope['method']}", trace.trace_parent, trace.caller) as span,
        ):
            try:
                await self.app(scope, receive, send_named)
            except Exception:
                status = 500
                raise
            finally:
                span.set(status=status, route=route_of(scope))
                self.tell(scope, status, self.clock() - begun)

    def tell(self, scope: Scope, status: int, seconds: float) -> None:
        """Measure a request that was answered, and log it. Only failures are warnings: nobody reads a line for each
        request that went well."""
        route = route_of(scope)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.measures.observe(catalogue.HTTP_SECONDS, seconds, method, route, f"{status // 100}xx")
        level = logging.WARNING if status >= 500 else logging.DEBUG
        if events.told(level):
            said = {"method": method, "path": scope["path"][:SHOWN], "status": status}
            events.tell(level, "request answered", said | {"duration_ms": round(seconds * 1000, 1)})


def route_of(scope: Scope) -> str:
    """Return the path as its endpoint declares it, with names in place of values."""
    return str(getattr(scope.get("route"), "path", "none"))


def only(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> str:
    """Return what a header says; nothing if it is there twice."""
    found = [value for each, value in headers if each == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def trace_of(headers: Sequence[tuple[bytes, bytes]]) -> Trace:
    """Return the identity that the headers give. One that is malformed, or there twice, is made anew and never passed
    on, because it would get into logs and into calls of other services."""
    # These are names and no secrets, so the quick generator will do: the system's would let other threads run first.
    random = f"{getrandbits(320):080x}"
    given = only(headers, b"x-request-id")
    request_id = given if REQUEST_ID.fullmatch(given) else random[:32]
    parent = only(headers, b"traceparent")
    if TRACE_PARENT.fullmatch(parent):
        _, trace_id, _, flags = parent.split("-")
        return Trace(request_id, f"00-{trace_id}-{random[32:48]}-{flags}", parent)
    return Trace(request_id, f"00-{random[48:]}-{random[32:48]}-01")
