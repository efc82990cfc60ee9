"""The heads of requests as they arrive. The parser of HTTP keeps a head until it ends, however long it is, so here is
where one that is too long ends."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST = 64 << 10


class BoundedHeads(HttpToolsProtocol):
    """A connection that is cut off when it sends too many bytes that belong to no body: an address, headers, trailers,
    or what stands between the chunks. What is read from the connection at once may be above the limit."""

    outside = 0
    """How many bytes have come since the last head ended, or the last bytes of a body came."""

    def data_received(self, data: bytes) -> None:
        self.outside += len(data)
        super().data_received(data)
        if self.outside > LONGEST:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        self.outside = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.outside = 0
        super().on_body(body)
