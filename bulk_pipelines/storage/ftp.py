"""A folder on an FTP server, with or without TLS; through ftplib.

A file is sent under a temporary name and renamed. Servers tell times to the second, so two contents of one size within
one second look like one version. Each transfer has a connection of its own; idle ones are used again.
"""

from __future__ import annotations

import ftplib
import logging
import secrets
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import Entry, Reader, Sink, Storage
from bulk_pipelines.storage.errors import Missing, Permanent, Refused, SourceChanged, StorageError, Transient
from bulk_pipelines.storage.ftp_connection import NO_SUCH, Connection, code, failures
from bulk_pipelines.storage.ftp_listing import Listed, facts, listed, moment

if TYPE_CHECKING:
    import socket
    from datetime import datetime

    from typing_extensions import Buffer

    from bulk_pipelines.storage.access import Access
    from bulk_pipelines.storage.addresses import Address

PAGE = 200
IDLE = 4

log = logging.getLogger(__name__)


class FtpStorage(Storage):
    def __init__(self, address: Address, root: str, access: Access) -> None:
        self.address = address
        self.root = root.rstrip("/")
        self.absolute = root.startswith("/")
        if root.strip("/"):
            paths.check(root.strip("/"))
        self.access = access
        self.idle: list[Connection] = []
        self.folders: set[str] = set()
        """Those that are known to exist."""
        self.lock = threading.Lock()

    def url_of(self, key: str) -> str:
        return f"{self.url}/{quote(paths.check(key))}"

    @property
    def url(self) -> str:
        return f"{self.address.server}/{quote(self.root)}".rstrip("/")

    def path(self, connection: Connection, key: str) -> str:
        root = self.root if self.absolute or not self.root else f"{connection.home}/{self.root}"
        base = root if self.absolute or self.root else connection.home
        return f"{base}/{key}" if key else base or "/"

    @contextmanager
    def connection(self, url: str) -> Iterator[Connection]:
        """For a few commands; what they fail with is said of `url`."""
        connection = self.take()
        try:
            with failures(url):
                yield connection
        except Transient:
            connection.close()
            raise
        except BaseException as error:
            connection.between = connection.between and isinstance(error, Permanent)
            self.give(connection)
            raise
        self.give(connection)

    def take(self) -> Connection:
        while True:
            with self.lock:
                connection = self.idle.pop() if self.idle else None
            if connection is None:
                return Connection(self.address, self.access)
            if connection.alive():
                return connection
            connection.close()

    def give(self, connection: Connection) -> None:
        with self.lock:
            if connection.between and len(self.idle) < IDLE:
                self.idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for each in idle:
            each.close()

    def stat(self, key: str) -> Entry:
        with self.connection(self.url_of(key)) as connection:
            return self.stat_by(connection, key)

    def stat_by(self, connection: Connection, key: str) -> Entry:
        path = self.path(connection, key)
        if "MLST" in connection.features:
            if answer := connection.answer(f"MLST {path}"):
                return self.entry(key, facts(answer.splitlines()[1]))
        elif size := connection.answer(f"SIZE {path}"):
            return self.entry(key, Listed(key, "file", int(size[4:]), self.modified(connection, path)))
        # Servers say "no such file", "not a file" and "not now" by the same numbers: the folder's listing tells.
        folder, _, name = key.rpartition("/")
        for found in self.listing(connection, folder):
            if found.name == name:
                return self.entry(key, found)
        raise Missing(f"{self.url_of(key)} does not exist")

    def modified(self, connection: Connection, path: str) -> datetime | None:
        answer = connection.answer(f"MDTM {path}")
        return moment(answer[4:]) if answer else None

    def entry(self, key: str, found: Listed) -> Entry:
        if found.kind != "file":
            raise Permanent(f"{self.url_of(key)} is a folder, not a file")
        time = f"{found.modified:%Y%m%d%H%M%S}" if found.modified else ""
        return Entry(key, found.size, found.modified, f"{time}-{found.size:x}")

    @contextmanager
    def open(self, key: str, start: int = 0, stop: int | None = None, version: str | None = None) -> Iterator[Reader]:
        url = self.url_of(key)
        connection = self.take()
        try:
            with failures(url):
                entry = self.stat_by(connection, key)
            if version is not None and entry.version != version:
                raise SourceChanged(f"{url} is no longer the version {version}: it was written to")
            yield Reader(
                entry, self.pieces(connection, entry, start, entry.size if stop is None else min(stop, entry.size))
            )
        finally:
            self.give(connection)  # a transfer that was left in the middle takes its connection with it

    def pieces(self, connection: Connection, entry: Entry, start: int, end: int) -> Generator[bytes, None, None]:
        if start >= end:
            return
        with failures(self.url_of(entry.key)):
            for piece in connection.received(self.begun(connection, entry, start)):
                kept = piece[: end - start]
                start += len(kept)
                if kept:
                    yield kept
                if start == end != entry.size:
                    return
            self.same(connection, entry)
            if start != end:
                raise SourceChanged(f"{self.url_of(entry.key)} was written to while it was read")

    def begun(self, connection: Connection, entry: Entry, start: int) -> socket.socket:
        command = f"RETR {self.path(connection, entry.key)}"
        try:
            return connection.begin(command, start)
        except (ftplib.error_perm, ftplib.error_temp) as error:
            if code(error) not in NO_SUCH:
                raise
            self.same(connection, entry)  # else it was being replaced just then
            return connection.begin(command, start)

    def same(self, connection: Connection, entry: Entry) -> None:
        try:
            now = self.stat_by(connection, entry.key)
        except Missing:
            raise SourceChanged(f"{self.url_of(entry.key)} was removed while it was read") from None
        if now.version != entry.version:
            raise SourceChanged(f"{self.url_of(entry.key)} was written to while it was read")

    def entries(self, pattern: str = "**") -> Iterator[Entry]:
        wanted = paths.Pattern(pattern)
        for files in self.folders_of(wanted.folder, wanted.reaches):
            chosen = [(key, each) for key, each in files if wanted.matches(key) and not paths.is_unfinished(key)]
            yield from self.timed(chosen)

    def folders_of(self, first: str, reaches: Callable[[str], bool]) -> Iterator[list[tuple[str, Listed]]]:
        """The files of a folder and of those in it that are reached, one folder's listing at a time."""
        with self.connection(self.url) as connection:
            if not connection.answer(f"CWD {self.path(connection, '')}"):
                raise Missing(f"{self.url} does not exist")
        waiting = [first]
        while waiting:
            folder = waiting.pop()
            with self.connection(self.url) as connection:
                listing = self.listing(connection, folder)
            files: list[tuple[str, Listed]] = []
            for each in listing:
                key = f"{folder}/{each.name}" if folder else each.name
                if problem := paths.fault(key):
                    log.warning("left out of the listing of %s: %r %s", self.url, key, problem)
                elif each.kind == "file":
                    files.append((key, each))
                elif each.kind == "folder" and reaches(key):
                    waiting.append(key)
            yield files

    def timed(self, files: list[tuple[str, Listed]]) -> Iterator[Entry]:
        """Entries with the exact times, which LIST does not tell."""
        for start in range(0, len(files), PAGE):
            page = files[start : start + PAGE]
            if any(each.modified is None for _, each in page):
                with self.connection(self.url) as connection:
                    times = [self.modified(connection, self.path(connection, key)) for key, _ in page]
                page = [(key, replace(each, modified=time)) for (key, each), time in zip(page, times, strict=True)]
            yield from (self.entry(key, each) for key, each in page)

    def listing(self, connection: Connection, folder: str) -> list[Listed]:
        """What lies in a folder; nothing if there is no such folder."""
        path = self.path(connection, folder)
        read: Callable[[str], Listed | None]
        if "MLST" in connection.features:
            read, command = facts, f"MLSD {path}"
        elif connection.answer(f"CWD {path}"):  # not all servers take a name with a blank or a bracket in it for LIST
            read, command = listed, "LIST -a"
        else:
            return []
        try:
            text = b"".join(connection.received(connection.begin(command))).decode(errors="surrogateescape")
        except (ftplib.error_perm, ftplib.error_temp) as error:
            if code(error) in NO_SUCH:
                return []
            raise
        found = (read(line) for line in text.replace("\r\n", "\n").split("\n") if line)
        return [each for each in found if each and each.name not in {".", ".."}]

    @contextmanager
    def publish(self, key: str) -> Iterator[Sink]:
        url = self.url_of(key)
        connection = self.take()
        written = ""
        published = False
        try:
            with failures(url):
                self.make_folder(connection, key)
                written = self.path(connection, paths.unfinished(key, secrets.token_hex(8)))
                data = connection.begin(f"STOR {written}")

            def write(piece: Buffer) -> None:
                with failures(url):
                    data.sendall(piece)

            sink = Sink(write)
            try:
                yield sink
                with failures(url):
                    connection.end(data)
            finally:
                data.close()
            with failures(url):
                self.confirm(connection, written, sink.size)
                self.rename(connection, written, self.path(connection, key))
            published = True
        finally:
            if written and not published:
                self.discard(connection, written)
            self.give(connection)

    def confirm(self, connection: Connection, path: str, size: int) -> None:
        """Not every server says so when a disk runs full."""
        answer = connection.answer(f"SIZE {path}")
        if answer and int(answer[4:]) != size:
            raise Transient(f"{self.url}: the server kept {answer[4:]} of {size} bytes")

    def discard(self, connection: Connection, path: str) -> None:
        """Remove an unfinished file: by the same connection, once the server has let go of it, else by another one."""
        try:
            if not connection.between:
                connection.ftp.getmultiline()
                connection.between = True
            connection.ftp.delete(path)
        except ftplib.error_perm:  # it never came to be
            pass
        except (OSError, EOFError, ftplib.Error):
            connection.between = False
            try:
                with self.connection(self.url) as another:
                    another.ftp.delete(path)
            except StorageError as error:
                log.warning("an unfinished file may be left: %s", error)

    def make_folder(self, connection: Connection, key: str) -> None:
        parts = key.split("/")[:-1]
        for depth in range(len(parts)):
            folder = "/".join(parts[: depth + 1])
            if folder not in self.folders:
                connection.answer(f"MKD {self.path(connection, folder)}")  # that it exists is no error
                self.folders.add(folder)

    def rename(self, connection: Connection, path: str, to: str) -> None:
        try:
            connection.ftp.rename(path, to)
        except ftplib.error_perm:
            # Some servers do not replace. There, for a moment, no file has the name; the old one is never lost.
            if not connection.answer(f"SIZE {to}"):
                raise
            aside = paths.unfinished(to, secrets.token_hex(8))
            connection.ftp.rename(to, aside)
            try:
                connection.ftp.rename(path, to)
            except ftplib.Error:
                connection.ftp.rename(aside, to)
                raise
            connection.ftp.delete(aside)

    def delete(self, *keys: str) -> None:
        for key in keys:
            with self.connection(self.url_of(key)) as connection:
                if not connection.answer(f"DELE {self.path(connection, key)}"):
                    with suppress(Missing):
                        self.stat_by(connection, key)
                        raise Refused(f"{self.url_of(key)}: the server does not let us remove it")

    def move(self, key: str, to: str) -> None:
        self.url_of(to)
        with self.connection(self.url_of(key)) as connection:
            self.stat_by(connection, key)
            if key != to:
                self.make_folder(connection, to)
                self.rename(connection, self.path(connection, key), self.path(connection, to))

    def sweep(self, before: datetime) -> int:
        swept = 0
        for files in self.folders_of("", lambda _: True):
            for entry in self.timed([(key, each) for key, each in files if paths.is_unfinished(key)]):
                if entry.modified and entry.modified < before:
                    self.delete(entry.key)
                    swept += 1
        return swept
