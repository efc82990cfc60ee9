"""What no endpoint has to reckon with: bodies that fill the memory, and characters that PostgreSQL's texts cannot hold.
An endpoint that streams its body lifts the limit; every other body is small."""

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bulk_pipelines.api.problems import Refusal, answered

LARGEST = 32 << 20
"""How many bytes a body may have that is held in memory: a hundred thousand inputs of a distribution, and to spare."""
LIFTED = "bulk.body_is_streamed"


def streamed(scope: Scope) -> None:
    """Lift the limit for this request. Whoever calls this reads the body piece by piece."""
    scope[LIFTED] = True


class Bounded:
    """The application, with an end to bodies that would fill the memory. The refusal is raised where the endpoint reads
    its body, so it is answered like any other error."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            refused = answered("invalid-input", "the address has a NUL character in it", Request(scope))
            await refused(scope, receive, send)
            return
        said = Headers(scope=scope).get("content-length", "")
        arrived = 0

        async def receive_bounded() -> Message:
            nonlocal arrived
            if LIFTED not in scope and said.isdigit() and int(said) > LARGEST:
                raise too_large()
            message = await receive()
            arrived += len(message.get("body", b""))
            if LIFTED not in scope and arrived > LARGEST:
                raise too_large()
            return message

        await self.app(scope, receive_bounded, send)


def too_large() -> Refusal:
    return Refusal("too-large", f"the body is larger than {LARGEST:,} bytes")
