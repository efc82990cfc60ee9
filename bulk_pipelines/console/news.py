"""News of open pages: their parts are drawn anew when something has changed. However many pages are open, the database
is asked for all of them together."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

from fastapi import Request
from sqlalchemy import Engine
from starlette.types import Send

from bulk_pipelines.api import events
from bulk_pipelines.api.events import Events, piece
from bulk_pipelines.api.live import Listener
from bulk_pipelines.api.owners import sessions
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.api.states import State
from bulk_pipelines.console.live import Fresh
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import overview
from bulk_pipelines.engine.jobs.overview import Unfinished, Working

COUNTED_SECONDS = 2.5
SESSION_SECONDS = 5.0
"""The longest time that a page is still told something after its session was ended elsewhere."""
WORKERS_SECONDS = 5.0
WAKE_SECONDS = 1.0
END_OF_LINE = re.compile("\r\n|\r|\n")

Draw = Callable[[list[State]], Awaitable[str]]
"""Draws the parts of a page that have changed with these states; returns an empty text if there are none."""


class Common:
    """What all open pages of this process share beside the look at their jobs."""

    def __init__(self, pool: Engine) -> None:
        self.pool = pool
        self.unfinished: Fresh[Unfinished] = Fresh(self.read_unfinished, COUNTED_SECONDS)
        self.workers: Fresh[list[Working]] = Fresh(self.read_workers, WORKERS_SECONDS)
        self.sessions: Fresh[frozenset[str]] = Fresh(self.read_sessions, SESSION_SECONDS)

    def read_unfinished(self) -> Unfinished:
        with transaction(self.pool) as connection:
            return overview.unfinished(connection)

    def read_workers(self) -> list[Working]:
        with transaction(self.pool) as connection:
            return overview.workers(connection, None)

    def read_sessions(self) -> frozenset[str]:
        with transaction(self.pool) as connection:
            return sessions.valid(connection)


class News(Events):
    """An answer that goes on for as long as its page is open."""

    def __init__(self, request: Request, caller: Caller, draw: Draw, jobs: frozenset[str] = frozenset()) -> None:
        super().__init__(request.app.state.live, Listener(shown=jobs, by=caller.actor.name))
        self.common: Common = request.app.state.common
        self.session = caller.session
        self.came_at = time.monotonic()
        self.draw = draw
        self.alone = next(iter(jobs)) if len(jobs) == 1 else None
        """The job that a page is about: its end is told."""

    async def tell(self, send: Send, gone: "asyncio.Task[None]") -> None:
        loop = asyncio.get_running_loop()
        until, beat = loop.time() + events.LONGEST_SECONDS, loop.time()
        while not gone.done() and not self.live.closed and loop.time() < until:
            news = await self.listener.news(WAKE_SECONDS)
            # A page whose session is over asks again, and is led to the login.
            if gone.done() or not await self.is_welcome():
                return
            text = await self.draw([state for state in news if state.row])
            over = any(state.over and state.job_key == self.alone for state in news)
            if text or over:
                await send(piece((message("parts", text) if text else "") + (message("end", "") if over else "")))
            elif loop.time() - beat > events.HEARTBEAT_SECONDS:
                await send(piece(": still there\n\n"))
            else:
                continue
            beat = loop.time()
            if over:
                return

    async def is_welcome(self) -> bool:
        """Whether the session of the page still holds. A list of sessions that was read before the page came may not
        know it yet, so it proves nothing."""
        if self.session is None:
            return True
        valid = await self.common.sessions.get()
        return self.session.session_id in valid or self.common.sessions.read_at < self.came_at


def message(name: str, text: str) -> str:
    """Return an event. No line of its text can be taken for a field."""
    return f"event: {name}\n" + "".join(f"data: {line}\n" for line in END_OF_LINE.split(text)) + "\n"
