"""Server-sent events: the states of jobs, as they change, for as long as a client listens."""

import asyncio
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bulk_pipelines.api.live import Listener, Live
from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.api.states import State
from bulk_pipelines.errors import OverQuota

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
LONGEST_SECONDS = 600.0
"""The longest time that a stream lasts. Its client then comes back by itself, and is refused if its key was revoked."""
RETRY_MILLISECONDS = 2_000
MOST = 4_000
"""How many listeners one process may have."""
OF_OWNER = 2_000
WAIT_SECONDS = 5


class Events(Response):
    """An answer that goes on until the job is over, the client goes away, or the server stops."""

    media_type = MEDIA_TYPE

    def __init__(self, live: Live, listener: Listener, first: State | None = None) -> None:
        self.live = live
        self.listener = listener
        self.first = first
        self.status_code = 200
        self.background = None
        # A proxy that buffers would keep the news to itself.
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        there = self.live.everybody()
        if sum(each.by == self.listener.by for each in there) >= OF_OWNER:
            raise OverQuota(f"{self.listener.by} has {OF_OWNER:,} listeners here, and may have no more", WAIT_SECONDS)
        if len(there) >= MOST:
            raise Refusal("unavailable", f"{MOST:,} listen already", headers={"Retry-After": str(WAIT_SECONDS)})
        gone = asyncio.create_task(departure(receive, self.listener.woken.set))
        try:
            with self.live.listening(self.listener):
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await send(piece(f"retry: {RETRY_MILLISECONDS}\n\n"))
                await self.tell(send, gone)
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()

    async def tell(self, send: Send, gone: "asyncio.Task[None]") -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LONGEST_SECONDS
        if self.first is not None:
            self.listener.tell(self.first)
        while not gone.done() and not self.live.closed and (left := until - loop.time()) > 0:
            news = await self.listener.news(min(left, HEARTBEAT_SECONDS))
            if gone.done():
                return
            await send(piece("".join(map(event, news)) or ": still there\n\n"))
            if self.listener.key is not None and any(state.over for state in news):
                return


async def departure(receive: Receive, tell: Callable[[], None]) -> None:
    """Wait until the client has gone away."""
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    finally:
        tell()


def piece(text: str) -> dict[str, object]:
    return {"type": "http.response.body", "body": text.encode(), "more_body": True}


def event(state: State) -> str:
    """Return a state as an event. Its data are one line of JSON, so no line of them can be taken for a field."""
    return f"event: {'end' if state.over else 'progress'}\nid: {state.digest}\ndata: {state.data}\n\n"
