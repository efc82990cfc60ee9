"""Bounds on connections. Heads that never end, and clients that do not read what they asked for, would hold a
connection for ever or fill the memory; the parser of HTTP has no such bounds. It also mistakes two things, which is
mended here: a trailer for a field of the head, and a body for bytes of another protocol."""

import asyncio
import json
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bulk_pipelines.api.problems import MEDIA_TYPE, body_of

LONGEST = 64 << 10
DROPPED_BYTES = 1 << 20
DROPPED_SECONDS = 2.0
"""How much is read, and for how long, of a head that was refused because it is too long. If the connection were closed
at once, its client would often see a reset connection in place of the answer."""
HEAD_SECONDS = 30.0
"""How long a head may take from its first byte to its last, and how long a new connection may be silent."""
READING_SECONDS = 60.0
"""The longest time that a client may read nothing of what is waiting for it."""
SLOWEST = 1_000
"""The least bytes a second that a client must have read after `READING_SECONDS` of what is waiting for it."""


class Parser(HttpRequestParser):
    """A parser that knows no protocol but HTTP/1. When a head offers to change to another one, the parser of the
    library takes the body for bytes of that protocol: the body would be lost, or taken for the next request. So such a
    head is read again without the offer."""

    def __init__(self, connection: "Guarded") -> None:
        super().__init__(connection)
        self.connection = connection
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as the server's own parser does

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        while True:
            try:
                super().feed_data(data)
            except HttpParserUpgrade as offered:
                data = self.connection.head_without_offer() + data[offered.args[0] :]
            else:
                return


class Guarded(HttpToolsProtocol):
    """A connection that is cut off when it sends too many bytes that belong to no body (an address, headers, trailers,
    or what stands between the chunks), when a head takes too long, or when its client does not read. One read from the
    connection may bring it beyond the limit before that is noticed."""

    outside = 0
    """How many bytes have come since the last head ended, or the last bytes of a body came."""
    is_refused = False
    """Whether the head was refused because it is too long; what still comes is dropped."""
    head_timer: asyncio.TimerHandle | None = None
    reading_timer: asyncio.TimerHandle | None = None
    head_ended = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parser = Parser(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.outside += len(data)
        if self.is_refused:
            if self.outside > DROPPED_BYTES:
                self.transport.abort()
            return
        super().data_received(data)
        if self.outside > LONGEST:
            self.refuse_long_head()
        elif self.head_timer is None and not self.answering:
            # A part of the next head, or what still comes of the body of a request that was answered already.
            self.expect_head()

    def on_message_begin(self) -> None:
        self.head_ended = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # A proxy removes from heads what must not come from outside. It does not look at trailers, so they count as
        # nothing here.
        if not self.head_ended:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.head_ended = True
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise HttpParserError("CONNECT is not supported")
            return  # the head is read again without the offer
        if self.parser.get_http_version() == "1.1" and sum(name == b"host" for name, _ in self.headers) != 1:
            raise HttpParserError("a request must have one Host header")
        if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self.headers):
            raise HttpParserError("a body must come in chunks or in one piece")
        self.outside = 0
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        self.outside = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP with a problem, like every other wrong request."""
        self.answer_unread(msg)
        self.transport.close()

    def refuse_long_head(self) -> None:
        """End a connection on which too much comes that belongs to no body. If it is the head of a request, its client
        is told."""
        if self.answering or self.head_ended:
            self.transport.abort()
            return
        self.is_refused = True
        self.forget_timers()
        self.answer_unread(f"its address and headers have more than {LONGEST:,} bytes")
        self.loop.call_later(DROPPED_SECONDS, self.transport.close)

    def answer_unread(self, msg: str) -> None:
        body = json.dumps(body_of("invalid-input", f"the request cannot be read: {msg}")).encode()
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        self.transport.write(f"{head}Connection: close\r\n\r\n".encode() + body)

    def head_without_offer(self) -> bytes:
        version = self.parser.get_http_version().encode()
        first = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)
        fields = (b"%s: %s" % field for field in self.headers if field[0] != b"upgrade")
        return b"\r\n".join([first, *fields, b"", b""])

    @property
    def answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def expect_head(self) -> None:
        self.head_timer = self.loop.call_later(HEAD_SECONDS, self.end_slow_head)

    def end_slow_head(self) -> None:
        self.head_timer = None
        if not self.answering:
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        waiting = self.transport.get_write_buffer_size()
        self.expect_reading(self.loop.time(), waiting, waiting)

    def resume_writing(self) -> None:
        if self.reading_timer is not None:
            self.reading_timer.cancel()
            self.reading_timer = None
        super().resume_writing()

    def expect_reading(self, since: float, at_first: int, waiting: int) -> None:
        self.reading_timer = self.loop.call_later(READING_SECONDS, self.end_slow_reading, since, at_first, waiting)

    def end_slow_reading(self, since: float, at_first: int, before: int) -> None:
        waiting = self.transport.get_write_buffer_size()
        seconds = self.loop.time() - since
        if waiting == before or at_first - waiting < SLOWEST * seconds:
            self.reading_timer = None
            self.transport.abort()
        else:
            self.expect_reading(since, at_first, waiting)

    def forget_timers(self) -> None:
        for timer in (self.head_timer, self.reading_timer):
            if timer is not None:
                timer.cancel()
        self.head_timer = self.reading_timer = None
