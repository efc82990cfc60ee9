"""Pages of other origins may ask reconciliation services, as the specification wants it. Clients that send no headers,
such as OpenRefine, may have their key in the address: `/reconcile/~KEY/NAME`. A key is needed all the same."""

import re

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from bulk_pipelines.api.endpoints.reconciliation import PREFIX
from bulk_pipelines.api.owners.callers import KEY_IN_ADDRESS

WITH_KEY = re.compile(rf"{PREFIX}/~([^/]+)(?=/|$)")


class Crossing:
    """The application, with the CORS headers that browsers ask for at the addresses below `/reconcile`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.open = CORSMiddleware(
            app,
            allow_origins=["*"],
            allow_methods=["GET", "HEAD", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] == "http" and scope["path"].startswith(f"{PREFIX}/")
        if is_open:
            take_key(scope)
        await (self.open if is_open else self.app)(scope, receive, send)


def take_key(scope: Scope) -> None:
    """Move a key from the address into the header, so that no line of the log has it."""
    found = WITH_KEY.match(scope["path"])
    if found is None:
        return
    scope["path"] = PREFIX + scope["path"][found.end() :]
    scope["raw_path"] = scope["path"].encode()
    scope["headers"] = [
        *(each for each in scope["headers"] if each[0] != b"authorization"),
        (b"authorization", b"Bearer " + found[1].encode()),
    ]
    scope.setdefault("state", {})[KEY_IN_ADDRESS] = found[1]
