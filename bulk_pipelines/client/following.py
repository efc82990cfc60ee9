"""A job is followed until it is over. Server-sent events tell when something has changed. Where they do not get
through, the job is looked at again and again."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self, TypeVar

import httpx

from bulk_pipelines.client.connection import CONNECT_SECONDS, Connection
from bulk_pipelines.errors import BulkError, Transient

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
SILENT_SECONDS = 45.0
"""How long a stream of events may be silent before it counts as dead: the server sends something every 15 seconds."""
ENOUGH = 3
"""How many streams in a row may fail before the job is only looked at."""


class Followed(Protocol):
    """What one look at a job shows."""

    @property
    def over(self) -> bool: ...


F = TypeVar("F", bound=Followed)


class News:
    """The news of a job: whoever follows it waits here between two looks."""

    def __init__(self, connection: Connection, job_id: str) -> None:
        self.connection = connection
        self.job_id = job_id
        self.lines: Iterator[str] | None = None
        self.last_id = ""
        self.failed = 0
        self.pause = FIRST_PAUSE
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def wait(self, seconds: float | None = None) -> None:
        """Return when something may have changed, or after so many seconds."""
        began = time.monotonic()
        if self.failed < ENOUGH:
            try:
                self.hear(SILENT_SECONDS if seconds is None else min(seconds, SILENT_SECONDS))
                self.failed, self.pause = 0, FIRST_PAUSE
                return
            except (httpx.TransportError, BulkError):
                self.stack.close()
                self.lines = None
                self.failed += 1
        left = LONGEST_PAUSE if seconds is None else max(0.0, began + seconds - time.monotonic())
        time.sleep(min(self.pause, left))
        self.pause = min(1.5 * self.pause, LONGEST_PAUSE)

    def hear(self, seconds: float) -> None:
        """Read up to the end of the next event. Lines that only show that the server is still there are skipped."""
        if self.lines is None:
            headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
            timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
            path = f"/v1/jobs/{self.job_id}/events"
            self.lines = self.stack.enter_context(self.connection.lines(path, headers, timeout))
        told = False
        until = time.monotonic() + seconds
        for line in self.lines:
            if line.startswith("id:"):
                self.last_id = line.removeprefix("id:").strip()
            told = told or line.startswith("event:")
            if not line and (told or time.monotonic() > until):
                return
        raise Transient("the server ended the events")


def follow(news: News, look: Callable[[], F], on_look: Callable[[F], None], seconds: float | None = None) -> F:
    """Look at a job whenever something may have changed, until it is over, and return the last look. Raise
    `TimeoutError` after `seconds`; the job goes on without us."""
    deadline = None if seconds is None else time.monotonic() + seconds
    with news:
        while True:
            seen = look()
            on_look(seen)
            if seen.over:
                return seen
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"the job is not over after {seconds:g} seconds: it goes on")
            news.wait(left)
