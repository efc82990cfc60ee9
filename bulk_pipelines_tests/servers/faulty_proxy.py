"""A proxy in front of a real server, mostly the S3 server, that fails as it is told to.

    proxy.add(Fault("status", share=0.2, method="PUT", status=503, retry_after=1))   # a fifth of the PUTs
    proxy.add(Fault("drop", times=3))                      # the next three requests never reach the server
    proxy.add(Fault("lose", method="PUT", times=1))        # reaches the server, its answer is lost
    proxy.add(Fault("cut", method="GET", times=1))         # half of the answer, then the connection breaks
    proxy.add(Fault("delay", seconds=2, match="exports/")) # forwarded late
    with proxy.down(): ...                                 # every connection is closed at once
    proxy.clear()

Use it through `proxy.access`, with any bucket of the server behind it: `proxy.bucket()` makes one.
"""

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

from bulk_pipelines.storage.access import Access
from bulk_pipelines_tests.servers.processes import Place, S3Server

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@dataclass
class Fault:
    kind: Literal["status", "drop", "lose", "cut", "delay"]
    share: float = 1.0
    """Which share of the requests that it is meant for meets this fault; the proxy's seed decides which ones."""
    times: int | None = None
    """How often the fault may happen at most; without a number, there is no limit."""
    method: str = ""
    match: str = ""
    """A text that a request must have in its path or query."""
    status: int = 503
    body: bytes = SLOW_DOWN
    retry_after: float | None = None
    seconds: float = 0.0
    meanwhile: Callable[[], object] | None = None
    """What is done when the request has come, and nobody has answered it yet."""
    afterwards: Callable[[], object] | None = None
    """What is done when the server has answered, and nobody was told."""


@dataclass(frozen=True)
class Behind:
    """A server that is no S3 server."""

    endpoint: str


class FaultyProxy:
    def __init__(self, behind: S3Server | Behind, seed: int = 1) -> None:
        self.origin = behind
        self.faults: list[Fault] = []
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.requests: list[tuple[str, str, str]] = []
        """The method and path of every request so far, and the kind of fault that it met, or an empty text."""
        self.conditions: list[tuple[str, str]] = []
        """The method and the If-Match header of every request so far that had one."""
        self.is_down = False
        self.refused = 0
        """How many connections were ended without an answer because the server is away."""
        self.server = Server(self)

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.server.disconnect()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def behind(self) -> S3Server:
        assert isinstance(self.origin, S3Server)
        return self.origin

    @property
    def access(self) -> Access:
        return replace(self.behind.access, s3=replace(self.behind.access.s3, endpoint=self.endpoint))

    def bucket(self) -> Place:
        """Make a new bucket, which is reached through the proxy."""
        return Place(self.behind.bucket().url, self.access)

    def add(self, fault: Fault) -> None:
        with self.lock:
            self.faults.append(fault)

    def clear(self) -> None:
        with self.lock:
            self.faults.clear()

    @contextmanager
    def down(self) -> Iterator[None]:
        """Let the server be away while the block lasts; open connections break too."""
        self.is_down = True
        self.server.disconnect()
        try:
            yield
        finally:
            self.is_down = False

    def counts(self) -> Counter[tuple[str, str]]:
        """Return how many requests of each method met each fault."""
        with self.lock:
            return Counter((method, fault) for method, _, fault in self.requests)

    def pick(self, method: str, path: str) -> Fault | None:
        """Note the request, and return the first fault that it is to meet, if there is any."""
        with self.lock:
            for fault in self.faults:
                meant = (not fault.method or fault.method == method) and fault.match in path and fault.times != 0
                if meant and self.random.random() < fault.share:
                    if fault.times is not None:
                        fault.times -= 1
                    self.requests.append((method, path, fault.kind))
                    return fault
            self.requests.append((method, path, ""))
        return None


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, proxy: FaultyProxy) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.proxy = proxy
        self.connections: set[socket.socket] = set()

    def disconnect(self) -> None:
        for each in list(self.connections):
            shut(each)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: broken connections are what this proxy is for."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    upstream: http.client.HTTPConnection

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)
        behind = urlsplit(self.server.proxy.origin.endpoint)
        self.upstream = http.client.HTTPConnection(behind.hostname or "", behind.port, timeout=60)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        self.upstream.close()
        super().finish()

    def handle_one_request(self) -> None:
        if self.server.proxy.is_down:
            self.server.proxy.refused += 1
            self.close_connection = True
            return
        super().handle_one_request()

    def relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if condition := self.headers.get("If-Match"):
            self.server.proxy.conditions.append((self.command, condition))
        fault = self.server.proxy.pick(self.command, self.path)
        kind = fault.kind if fault else ""
        if fault and fault.meanwhile:
            fault.meanwhile()
        if self.server.proxy.is_down or kind == "drop":
            return self.hang_up()
        if fault and kind == "status":
            headers = {"Retry-After": f"{fault.retry_after:g}"} if fault.retry_after is not None else {}
            return self.answer(fault.status, headers, fault.body)
        if fault and kind == "delay":
            time.sleep(fault.seconds)
        status, headers, data = self.forwarded(body)
        if fault and fault.afterwards:
            fault.afterwards()
        if kind == "lose":
            return self.hang_up()
        self.answer(status, headers, data, cut=kind == "cut")
        return None

    def forwarded(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        # The Host header stays as it is, because the request is signed for it.
        self.upstream.request(self.command, self.path, body or None, dict(self.headers))
        answer = self.upstream.getresponse()
        kept = {
            name: value
            for name, value in answer.getheaders()
            if name.lower() not in {"connection", "transfer-encoding"}
        }
        return answer.status, kept, answer.read()

    def answer(self, status: int, headers: dict[str, str], data: bytes, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        self.wfile.flush()
        if cut:
            self.hang_up()

    def hang_up(self) -> None:
        self.close_connection = True
        shut(self.connection)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do_HEAD = relay  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
