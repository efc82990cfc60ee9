"""A proxy in front of PostgreSQL that reads the messages of both sides, and does something at a point of their talk.

    point = Point("settled AS (", Moment.COMMITTED, number=3)
    with DatabaseProxy(database_url, point, process.kill) as proxy: ...   # clients connect to `proxy.url`

The connection ends there: what the client has sent last, the server never gets, or what the server has answered last,
the client never hears. So a process is killed before a statement, between a statement and its commit, or between a
commit and the answer to it, and no function of the product is replaced for that.
"""

import socket
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingUnixStreamServer
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import make_url

SOCKET = ".s.PGSQL.5432"
CHUNK = 1 << 18
HEAD = 5

# The kinds of messages that are read here.
OF_CLIENTS = QUERY, PARSE, BIND = tuple(b"QPB")
OF_SERVERS = COMPLETE, ERROR, READY = tuple(b"CEZ")
IDLE = b"I"
"""What a server that is ready says when no transaction is open."""


class Moment(Enum):
    BEFORE = auto()
    """The client has sent the statement, and it has not come to the server."""
    DONE = auto()
    """The server has done what the statement says. Where that is part of a transaction, nothing is committed yet."""
    COMMITTED = auto()
    """The transaction of the statement is committed, and the client has not been told."""


@dataclass(frozen=True)
class Point:
    """A moment of the statement with this number among those that have these words."""

    words: str
    moment: Moment
    number: int = 1


class DatabaseProxy:
    """Clients talk with the database at `url` through it, and `happen` is called when the point comes."""

    def __init__(self, url: str, point: Point, happen: Callable[[], object]) -> None:
        self.point = point
        self.happen = happen
        self.left = point.number
        self.lock = threading.Lock()
        self.behind = conninfo_to_dict(url)
        self.folder = tempfile.TemporaryDirectory(prefix="bulk-")  # its path is short, as unix sockets need it
        self.url = (
            make_url(url)
            .set(host="", port=None, query={"host": self.folder.name})
            .render_as_string(hide_password=False)
        )
        self.server = Server(self)

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def connected(self) -> socket.socket:
        """Connect with the server behind the proxy."""
        host, port = str(self.behind["host"]), int(self.behind.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        made = socket.socket(socket.AF_UNIX)
        made.connect(f"{host}/.s.PGSQL.{port}")
        return made

    def come(self, moment: Moment, statements: list[str]) -> None:
        """Note that these statements have come to a moment. If it is the point, let happen what is to happen, and end
        the connection."""
        if moment is not self.point.moment:
            return
        with self.lock:
            before = self.left
            self.left -= sum(self.point.words in each for each in statements)
            is_met = before > 0 >= self.left
        if is_met:
            self.happen()
            raise ConnectionAbortedError


class Server(ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, proxy: DatabaseProxy) -> None:
        super().__init__(str(Path(proxy.folder.name) / SOCKET), Session)
        self.proxy = proxy

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that die are what this proxy is for."""


class Session(BaseRequestHandler):
    """A connection of a client, and what was said on it. Clients wait for the answer to one statement before they send
    another."""

    server: Server
    request: socket.socket

    def setup(self) -> None:
        self.prepared: dict[bytes, str] = {}
        self.asked: list[str] = []
        """The statements that are not answered yet."""
        self.together: list[str] = []
        """The statements of the present transaction."""
        self.failed = False
        self.tag = b""
        """What the server said of the last statement that it has done."""

    def handle(self) -> None:
        with self.server.proxy.connected() as behind:
            # The first message has no byte for its kind. Over a unix socket, nobody asks for encryption before it.
            length = self.request.recv(4, socket.MSG_WAITALL)
            behind.sendall(length + self.request.recv(int.from_bytes(length) - 4, socket.MSG_WAITALL))
            back = (behind, self.request, OF_SERVERS, self.answered)
            answers = threading.Thread(target=relay, args=back, daemon=True)
            answers.start()
            relay(self.request, behind, OF_CLIENTS, self.sent)
            answers.join()

    def sent(self, kind: int, body: bytes) -> None:
        first, second, *_ = body.split(b"\0", 2)
        if kind == PARSE:
            self.prepared[first] = text(second)
        elif kind in (QUERY, BIND):
            statement = text(first) if kind == QUERY else self.prepared[second]
            self.asked.append(statement)
            self.server.proxy.come(Moment.BEFORE, [statement])

    def answered(self, kind: int, body: bytes) -> None:
        if kind == COMPLETE:
            self.tag = body
        elif kind == ERROR:
            self.failed = True
        elif kind == READY:
            asked, self.asked = self.asked, []
            self.together += asked
            if not self.failed:
                self.server.proxy.come(Moment.DONE, asked)
            if body == IDLE:
                over, self.together = self.together, []
                if not self.failed and self.tag != b"ROLLBACK\0":
                    self.server.proxy.come(Moment.COMMITTED, over)
            self.failed = False


def relay(
    source: socket.socket, target: socket.socket, kinds: Collection[int], read: Callable[[int, bytes], None]
) -> None:
    """Pass messages on until one side is gone, and the other one hears of that. Those of some kinds are read before."""
    held = bytearray()
    with suppress(OSError):
        while data := source.recv(CHUNK):
            held += data
            end = 0
            for start, end in messages(held):
                if held[start] in kinds:
                    read(held[start], bytes(held[start + HEAD : end]))
            target.sendall(held[:end])
            del held[:end]
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def text(statement: bytes) -> str:
    return statement.decode(errors="replace")


def messages(held: bytearray) -> Iterator[tuple[int, int]]:
    """Yield where each whole message begins and ends: a byte for its kind, its length without that byte, its body."""
    start = 0
    while len(held) >= start + HEAD:
        end = start + 1 + int.from_bytes(held[start + 1 : start + HEAD])
        if len(held) < end:
            return
        yield start, end
        start = end
