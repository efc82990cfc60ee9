"""Answers that are made piece by piece, as quickly as the client takes them. No piece is made before it can be sent, so
an answer holds only what its maker reads ahead, and the one piece that is being sent."""

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing

import anyio.from_thread
import anyio.to_thread
from anyio import CapacityLimiter
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.errors import Cancelled, OverQuota

log = logging.getLogger(__name__)

AT_ONCE = 16
"""How many streams one process makes at once. One that is read from the database holds three of its connections."""
OF_OWNER = 4
"""How many streams one owner may have at once."""
WAIT_SECONDS = 5

Gone = Callable[[], bool]
"""Tells whether the client has gone away."""
Make = Callable[[Gone], Iterator[bytes]]


class Streams:
    """The streams of one process. One too many is refused, because each holds connections for as long as its client
    likes."""

    def __init__(self) -> None:
        self.limiter = CapacityLimiter(AT_ONCE)
        self.owners: list[str] = []

    def refuse(self, owner: str) -> None:
        if self.owners.count(owner) >= OF_OWNER:
            raise OverQuota(f"{owner} has {OF_OWNER} streams under way here, and may have no more", WAIT_SECONDS)
        if len(self.owners) >= AT_ONCE:
            raise Refusal(
                "unavailable",
                f"{AT_ONCE} streams are under way, as many as there may be",
                headers={"Retry-After": str(WAIT_SECONDS)},
            )


class Stream(Response):
    """An answer whose bytes a generator makes, in a thread. An error before the first byte is answered like every other
    error. A later one breaks the answer off, so that no client takes it for whole. A client that goes away ends the
    work at once."""

    def __init__(
        self, streams: Streams, owner: str, make: Make, media_type: str, headers: Mapping[str, str], status: int = 200
    ) -> None:
        self.streams = streams
        self.owner = owner
        self.make = make
        self.status_code = status
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        self.streams.refuse(self.owner)
        self.streams.owners.append(self.owner)
        gone = threading.Event()
        listener = asyncio.create_task(listen(receive, gone))
        try:
            await anyio.to_thread.run_sync(self.work, send, gone, limiter=self.streams.limiter)
        finally:
            gone.set()
            listener.cancel()
            self.streams.owners.remove(self.owner)

    def work(self, send: Send, gone: threading.Event) -> None:
        async def sent(message: Message) -> None:
            await send(message)

        def tell(message: Message) -> None:
            anyio.from_thread.run(sent, message)

        begun = False
        try:
            with closing(generator(self.make(gone.is_set))) as pieces:
                first = next(pieces, b"")
                tell({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                begun = True
                for piece in itertools.chain((first,), pieces):
                    if gone.is_set():
                        return
                    tell({"type": "http.response.body", "body": piece, "more_body": True})
            tell({"type": "http.response.body", "body": b"", "more_body": False})
        except Cancelled:
            if not gone.is_set():
                raise
        except Exception as error:
            if begun:
                log.warning("an answer to %s was broken off: %s", self.owner, error)
            raise


def generator(pieces: Iterator[bytes]) -> Generator[bytes]:
    """Return the pieces as a generator, which can be closed early."""
    yield from pieces


async def listen(receive: Receive, gone: threading.Event) -> None:
    """Note when the client goes away."""
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    finally:
        gone.set()
