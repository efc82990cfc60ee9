"""The identity of a request: `X-Request-ID` and W3C `traceparent`. Both are accepted or made, kept with the job, and
sent back."""

import re
from dataclasses import dataclass
from random import getrandbits

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bulk_pipelines.engine.jobs.jobs import TRACE_PARENT

REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


@dataclass(frozen=True)
class Trace:
    """By what a request is known in logs, in its job, and at whoever is called because of it."""

    request_id: str
    trace_parent: str


class Traced:
    """The application, with the identity of each request noted in `scope["state"]` and sent back with the answer. It
    stands around everything else, so that the answer to an error bears it, too."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        trace = trace_of(Headers(scope=scope))
        scope.setdefault("state", {})["trace"] = trace

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = trace.request_id
                headers["traceparent"] = trace.trace_parent
            await send(message)

        await self.app(scope, receive, send_named)


def trace_of(headers: Headers) -> Trace:
    """Return the identity that the headers give. What is not as it should be is made anew, never passed on: it would
    come into logs and into calls of others."""
    # These are names and no secrets. The system's own random numbers would cost a change of threads for each request.
    random = f"{getrandbits(320):080x}"
    given = headers.get("x-request-id", "")
    request_id = given if REQUEST_ID.fullmatch(given) else random[:32]
    parent = headers.get("traceparent", "")
    if TRACE_PARENT.fullmatch(parent):
        version, trace_id, _, flags = parent.split("-")
        return Trace(request_id, f"{version}-{trace_id}-{random[32:48]}-{flags}")
    return Trace(request_id, f"00-{random[48:]}-{random[32:48]}-01")
