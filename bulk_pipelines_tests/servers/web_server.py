"""A real web server for the tests whose answers the test writes itself.

with WebServer() as server:
    server.routes["/file.csv"] = content(b"…")
    server.routes["/old"] = redirect("/file.csv")
"""

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = Callable[["Handler"], None]


class WebServer:
    def __init__(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.routes: dict[str, Answer] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        """The path and headers of every request so far."""
        self.server = Server((host, 0), Handler)
        self.server.web = self
        self.scheme = "https" if tls else "http"
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)

    @property
    def port(self) -> int:
        return int(self.server.server_port)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.stopping.set()
        self.server.shutdown()
        self.server.server_close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    web: WebServer

    def __init__(self, address: tuple[str, int], handler: type["Handler"]) -> None:
        super().__init__(address, handler)
        self.stopping = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that go away in the middle are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        web = self.server.web
        web.requests.append((self.path, dict(self.headers)))
        web.routes.get(self.path, status(404))(self)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def content(data: bytes, **headers: str) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def chunked(data: bytes, size: int = 1000) -> Answer:
    """Return an answer that sends the data in chunks, without telling its length before."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    return answer


def broken(data: bytes, length: int) -> Answer:
    """Return an answer that promises `length` bytes, sends only the data, and ends the connection."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(data)
        handler.close_connection = True

    return answer


def endless(piece: bytes) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        while not handler.server.stopping.is_set():
            handler.wfile.write(piece)

    return answer


def trickle(head: bytes, drop: bytes, every: float) -> Answer:
    """Return an answer that sends the head at once, and then a drop now and then until the server stops."""

    def answer(handler: Handler) -> None:
        handler.wfile.write(head)
        handler.close_connection = True
        while not handler.server.stopping.wait(every):
            handler.wfile.write(drop)

    return answer


def redirect(to: str, code: int = 302) -> Answer:
    return status(code, Location=to)


def status(code: int, **headers: str) -> Answer:
    return lambda handler: answer_status(handler, code, headers)


def answer_status(handler: Handler, code: int, headers: dict[str, str]) -> None:
    handler.send_response(code)
    handler.send_header("Content-Length", "0")
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
