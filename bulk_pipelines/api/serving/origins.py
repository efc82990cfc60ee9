"""Pages of other origins may ask reconciliation services, as their specification wants. A key is needed all the same:
whoever asks without one is let in only from a page of our own."""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from bulk_pipelines.api.endpoints.reconciliation import PREFIX


class Crossing:
    """The application, with the answers to browsers' questions for the addresses below `/reconcile`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.open = CORSMiddleware(
            app, allow_origins=["*"], allow_methods=["GET", "POST"], allow_headers=["Authorization", "Content-Type"]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] == "http" and scope["path"].startswith(f"{PREFIX}/")
        await (self.open if is_open else self.app)(scope, receive, send)
