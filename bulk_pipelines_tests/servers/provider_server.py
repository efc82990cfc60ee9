"""A web service for the tests and benchmarks of processing. It answers with JSON, counts, and enforces a limit of its
own by its own clock, as real ones do."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Call:
    """One request as the service saw it."""

    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    moment: float


@dataclass(frozen=True)
class Said:
    """What the service answers. Bytes are sent as they are, anything else as JSON."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[Call], Any]


class Window:
    """A limit of so many requests in so many seconds, counted at any moment."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.seconds = seconds
        self.moments: deque[float] = deque()

    def admits(self, now: float) -> bool:
        while self.moments and self.moments[0] <= now - self.seconds:
            self.moments.popleft()
        if len(self.moments) >= self.most:
            return False
        self.moments.append(now)
        return True


class ProviderServer:
    def __init__(self, answer: Answer, *windows: Window, at_once: int | None = None, seconds: float = 0.0) -> None:
        self.answer = answer
        self.windows = windows
        self.at_once = at_once
        self.seconds = seconds
        """How long an answer takes."""
        self.lock = threading.Lock()
        self.under_way = 0
        self.most_at_once = 0
        self.calls: list[Call] = []
        self.refused = 0
        self.stopping = threading.Event()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.provider = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/"

    def admitted(self, call: Call) -> bool:
        with self.lock:
            self.calls.append(call)
            self.under_way += 1
            self.most_at_once = max(self.most_at_once, self.under_way)
            within = self.at_once is None or self.under_way <= self.at_once
            admitted = within and self.counted(call.moment)
            self.refused += not admitted
            return admitted

    def counted(self, now: float) -> bool:
        """Count a request in every window, also when another one is full already."""
        found = [window.admits(now) for window in self.windows]
        return all(found)

    def left(self) -> None:
        with self.lock:
            self.under_way -= 1

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    provider: ProviderServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that go away in the middle are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def serve(self) -> None:
        provider = self.server.provider
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        params = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        call = Call(parts.path, params, dict(self.headers), body, time.monotonic())
        try:
            if not provider.admitted(call):
                self.say(Said({"error": "too many requests"}, 429, {"Retry-After": "1"}))
                return
            if provider.seconds:
                provider.stopping.wait(provider.seconds)
            said = provider.answer(call)
            if callable(said):
                said(self)
            else:
                self.say(said if isinstance(said, Said) else Said(said))
        finally:
            provider.left()

    def say(self, said: Said) -> None:
        data = said.value if isinstance(said.value, bytes) else json.dumps(said.value).encode()
        self.send_response(said.status)
        self.send_header("Content-Length", str(len(data)))
        if "Content-Type" not in said.headers:
            self.send_header("Content-Type", "application/json")
        for name, value in said.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing on the test's output."""
