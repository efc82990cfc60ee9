"""A folder on an FTP server, with or without TLS, that is reached by ftplib.

A file is sent under a temporary name and renamed. Servers tell times to the second, so two contents of one size within
one second look like one version.
"""

from __future__ import annotations

import ftplib
import logging
import secrets
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from bulk_pipelines.errors import Failure, Permanent, Transient
from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import Entry, Page, Reader, Sink, Storage
from bulk_pipelines.storage.errors import Missing, Refused, SourceChanged
from bulk_pipelines.storage.ftp.errors import NO_SUCH, NotListed, code, failures, said
from bulk_pipelines.storage.ftp.pool import Pool
from bulk_pipelines.storage.ftp.walk import walk

if TYPE_CHECKING:
    import socket
    from datetime import datetime

    from typing_extensions import Buffer

    from bulk_pipelines.storage.access import Access
    from bulk_pipelines.storage.addresses import Address
    from bulk_pipelines.storage.ftp.connection import Connection
    from bulk_pipelines.storage.ftp.listing import Listed

AT_ONCE = 200

log = logging.getLogger(__name__)


class FtpStorage(Storage):
    def __init__(self, address: Address, root: str, access: Access) -> None:
        self.address = address
        self.root = root.rstrip("/")
        self.absolute = root.startswith("/")
        if root.strip("/"):
            paths.check(root.strip("/"))
        self.pool = Pool(address, access)
        self.folders: set[str] = set()
        """The folders that are known to exist."""

    def url_of(self, key: str) -> str:
        return f"{self.url}/{quote(paths.check(key))}"

    @property
    def url(self) -> str:
        return f"{self.address.server}/{quote(self.root)}".rstrip("/")

    def path(self, connection: Connection, key: str) -> str:
        root = self.root if self.absolute or not self.root else f"{connection.home}/{self.root}"
        base = root if self.absolute or self.root else connection.home
        return f"{base}/{key}" if key else base or "/"

    def close(self) -> None:
        self.pool.close()

    def stat(self, key: str) -> Entry:
        with self.pool.connection(self.url_of(key)) as connection:
            return self.stat_by(connection, key)

    def stat_by(self, connection: Connection, key: str) -> Entry:
        if found := connection.stat(self.path(connection, key)):
            return self.entry(key, found)
        # Servers say "no such file", "not a file" and "not now" by the same numbers; only the folder's listing tells.
        folder, _, name = key.rpartition("/")
        with suppress(NotListed):
            # The listing is read to its end, else the connection would be left in the middle of it.
            listing = [each for part in connection.listing(self.path(connection, folder)) for each in part]
            for each in listing:
                if each.name == name:
                    # The exact time is needed, as in `timed`: `stat` and a listing must call a version the same.
                    exact = each.modified or connection.modified(self.path(connection, key))
                    return self.entry(key, replace(each, modified=exact))
        raise Missing(f"{self.url_of(key)} does not exist")

    def entry(self, key: str, found: Listed) -> Entry:
        if found.kind != "file":
            raise Permanent(f"{self.url_of(key)} is a folder, not a file")
        time = f"{found.modified:%Y%m%d%H%M%S}" if found.modified else ""
        return Entry(key, found.size, found.modified, f"{time}-{found.size:x}")

    @contextmanager
    def open(self, key: str, start: int = 0, stop: int | None = None, version: str | None = None) -> Iterator[Reader]:
        url = self.url_of(key)
        connection = self.pool.take()
        try:
            with failures(url):
                entry = self.stat_by(connection, key)
            if version is not None and entry.version != version:
                raise SourceChanged(f"{url} is no longer the version {version}: it was written to")
            yield Reader(
                entry, self.pieces(connection, entry, start, entry.size if stop is None else min(stop, entry.size))
            )
        finally:
            self.pool.give(connection)  # the pool closes it if its transfer was left in the middle

    def pieces(self, connection: Connection, entry: Entry, start: int, end: int) -> Generator[bytes, None, None]:
        if start >= end:
            return
        with failures(self.url_of(entry.key)):
            for piece in self.received(connection, entry, start):
                kept = piece[: end - start]
                start += len(kept)
                if kept:
                    yield kept
                if start == end != entry.size:
                    return
            self.same(connection, entry)
            if start != end:
                raise SourceChanged(f"{self.url_of(entry.key)} was written to while it was read")

    def received(self, connection: Connection, entry: Entry, start: int) -> Iterator[bytes]:
        data = self.begun(connection, entry, start)
        try:
            yield from connection.received(data)
        except ftplib.Error as error:  # the transfer had begun, so the file was touched, or the disk failed
            self.same(connection, entry)
            raise Transient(f"{self.url_of(entry.key)}: the server broke the transfer off ({said(error)})") from None

    def begun(self, connection: Connection, entry: Entry, start: int) -> socket.socket:
        command = f"RETR {self.path(connection, entry.key)}"
        try:
            return connection.begin(command, start)
        except (ftplib.error_perm, ftplib.error_temp) as error:
            if code(error) not in NO_SUCH:
                raise
            self.same(connection, entry)  # if it is the same, it was missing for a moment while it was being replaced
            return connection.begin(command, start)

    def same(self, connection: Connection, entry: Entry) -> None:
        try:
            now = self.stat_by(connection, entry.key)
        except Missing:
            raise SourceChanged(f"{self.url_of(entry.key)} was removed while it was read") from None
        if now.version != entry.version:
            raise SourceChanged(f"{self.url_of(entry.key)} was written to while it was read")

    def pages(self, pattern: str = "**", aside: Collection[str] = ()) -> Iterator[Page]:
        wanted = paths.Pattern(pattern)
        for files, left_out in walk(self, wanted.folder, lambda key: key not in aside and wanted.reaches(key)):
            yield Page([], left_out)
            chosen = [(key, each) for key, each in files if wanted.matches(key) and not paths.is_unfinished(key)]
            yield from self.timed(chosen)

    def timed(self, files: list[tuple[str, Listed]]) -> Iterator[Page]:
        """Yield pages of these files with their exact times, which LIST does not tell."""
        for start in range(0, len(files), AT_ONCE):
            chosen = files[start : start + AT_ONCE]
            if any(each.modified is None for _, each in chosen):
                with self.pool.connection(self.url) as connection:
                    times = [connection.modified(self.path(connection, key)) for key, _ in chosen]
                chosen = [(key, replace(each, modified=time)) for (key, each), time in zip(chosen, times, strict=True)]
            page = Page()
            for key, each in chosen:
                page.add(self.entry(key, each))
            yield page

    @contextmanager
    def publish(self, key: str) -> Iterator[Sink]:
        url = self.url_of(key)
        connection = self.pool.take()
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
                connection.rename(written, self.path(connection, key))
            published = True
        finally:
            if written and not published:
                self.discard(connection, written)
            self.pool.give(connection)

    def confirm(self, connection: Connection, path: str, size: int) -> None:
        """Check that the server kept all bytes, because some servers do not say when a disk runs full."""
        answer = connection.answer(f"SIZE {path}")
        if answer and int(answer[4:]) != size:
            raise Transient(f"{self.url}: the server kept {answer[4:]} of {size} bytes")

    def discard(self, connection: Connection, path: str) -> None:
        """Remove an unfinished file by the same connection, once the server has let go of the file; if that fails, by
        another connection."""
        try:
            if not connection.between:
                connection.ftp.getmultiline()
                connection.between = True
            connection.ftp.delete(path)
        except ftplib.error_perm:  # the file never came to be
            pass
        except (OSError, EOFError, ftplib.Error):
            connection.between = False
            try:
                with self.pool.connection(self.url) as another:
                    another.ftp.delete(path)
            except Failure as error:
                log.warning("an unfinished file may be left: %s", error)

    def make_folder(self, connection: Connection, key: str) -> None:
        for folder in paths.folders_of(key):
            if folder not in self.folders:
                connection.answer(f"MKD {self.path(connection, folder)}")  # that it exists is no error
                self.folders.add(folder)

    def delete(self, *keys: str) -> None:
        for key in keys:
            with self.pool.connection(self.url_of(key)) as connection:
                if not connection.answer(f"DELE {self.path(connection, key)}"):
                    with suppress(Missing):
                        self.stat_by(connection, key)
                        raise Refused(f"{self.url_of(key)}: the server does not let us remove it")

    def move(self, key: str, to: str) -> None:
        self.url_of(to)
        with self.pool.connection(self.url_of(key)) as connection:
            self.stat_by(connection, key)
            if key != to:
                self.make_folder(connection, to)
                connection.rename(self.path(connection, key), self.path(connection, to))

    def move_new(self, key: str, to: str) -> bool:
        """Move a file unless there is one of the new name. The protocol has no renaming that never replaces, so the new
        name is looked at just before."""
        with self.pool.connection(self.url_of(key)) as connection:
            self.stat_by(connection, key)
            self.make_folder(connection, to)
            with suppress(Missing):
                self.stat_by(connection, to)
                return False
            connection.ftp.rename(self.path(connection, key), self.path(connection, to))
        return True

    def sweep(self, before: datetime, of: str = "") -> int:
        swept = 0
        for files, _ in walk(self, paths.folder_of(of), lambda _: not of):
            for page in self.timed([(key, each) for key, each in files if paths.is_unfinished(key, of)]):
                for entry in page.entries:
                    if entry.modified and entry.modified < before:
                        self.delete(entry.key)
                        swept += 1
        return swept
