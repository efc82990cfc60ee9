"""A folder on an SSH server that is reached by paramiko.

A file is sent under a temporary name and renamed. Servers tell times to the second, so two contents of one size within
one second look like one version.
"""

from __future__ import annotations

import logging
import secrets
import stat
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

import paramiko

from bulk_pipelines.errors import Failure, Permanent, Transient
from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import Entry, LeftOut, Page, Reader, Sink, Storage
from bulk_pipelines.storage.errors import Missing, SourceChanged
from bulk_pipelines.storage.sftp.listing import listing
from bulk_pipelines.storage.sftp.pool import Pool, failures
from bulk_pipelines.storage.sftp.reading import parts_of
from bulk_pipelines.storage.sftp.writing import confirm

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from bulk_pipelines.storage.access import Access
    from bulk_pipelines.storage.addresses import Address

PIECE = 1 << 20
"""Bytes that are handed on at once."""

log = logging.getLogger(__name__)


class SftpStorage(Storage):
    def __init__(self, address: Address, root: str, access: Access) -> None:
        self.address = address
        self.root = root.rstrip("/") or root
        if root.strip("/"):
            paths.check(root.strip("/"))
        self.pool = Pool(address, access.login)
        self.folders: set[str] = set()
        """The folders that are known to exist."""

    def url_of(self, key: str) -> str:
        return f"{self.url}/{quote(paths.check(key))}"

    @property
    def url(self) -> str:
        return f"{self.address.server}/{quote(self.root)}".rstrip("/")

    def path(self, key: str) -> str:
        if not key:
            return self.root or "."
        return f"{self.root.rstrip('/')}/{key}" if self.root else key

    def close(self) -> None:
        self.pool.close()

    def stat(self, key: str) -> Entry:
        with self.pool.channel(self.url_of(key)) as channel:
            return self.entry(key, channel.stat(self.path(key)))

    def entry(self, key: str, found: paramiko.SFTPAttributes) -> Entry:
        if not stat.S_ISREG(found.st_mode or 0):
            raise Permanent(f"{self.url_of(key)} is a folder, not a file")
        size, seconds = found.st_size or 0, found.st_mtime or 0
        return Entry(key, size, datetime.fromtimestamp(seconds, UTC), f"{seconds:x}-{size:x}")

    @contextmanager
    def open(self, key: str, start: int = 0, stop: int | None = None, version: str | None = None) -> Iterator[Reader]:
        url = self.url_of(key)
        with failures(url):
            channel = self.pool.take()
        try:
            with failures(url):
                entry = self.entry(key, channel.stat(self.path(key)))
                file = channel.open(self.path(key), "rb")
            if version is not None and entry.version != version:
                raise SourceChanged(f"{url} is no longer the version {version}: it was written to")
            end = entry.size if stop is None else min(stop, entry.size)
            yield Reader(entry, self.pieces(channel, file, entry, start, end))
        finally:
            self.pool.end(channel)  # answers may still be on their way, so it cannot be used again

    def pieces(
        self, channel: paramiko.SFTPClient, file: paramiko.SFTPFile, entry: Entry, start: int, end: int
    ) -> Generator[bytes, None, None]:
        url = self.url_of(entry.key)
        with failures(url):
            parts = parts_of(channel, file, start, end)
            while start < end:
                piece = bytearray()
                while len(piece) < min(PIECE, end - start) and (part := next(parts, None)):
                    piece += part
                if not piece:
                    raise SourceChanged(f"{url} became shorter while it was read")
                start += len(piece)
                yield bytes(piece)
            try:
                now = self.entry(entry.key, channel.stat(self.path(entry.key)))
            except FileNotFoundError:
                raise SourceChanged(f"{url} was removed while it was read") from None
        if now.version != entry.version:
            raise SourceChanged(f"{url} was written to while it was read")

    def pages(self, pattern: str = "**", aside: Collection[str] = ()) -> Iterator[Page]:
        wanted = paths.Pattern(pattern)
        for page in self.walk(wanted.folder, lambda key: key not in aside and wanted.reaches(key)):
            page.entries = [
                each for each in page.entries if wanted.matches(each.key) and not paths.is_unfinished(each.key)
            ]
            yield page

    def walk(self, first: str, reaches: Callable[[str], bool]) -> Iterator[Page]:
        """Yield the files of a folder and of the folders in it that are reached, one answer of the server at a time."""
        with self.pool.channel(self.url) as channel:
            channel.stat(self.path(""))
        waiting = [first]
        while waiting:
            folder = waiting.pop()
            try:
                with self.pool.channel(self.url) as channel:
                    for part in listing(channel, self.path(folder)):
                        yield self.page(folder, part, waiting, reaches)
            except Missing:
                continue
            except Failure as error:
                # Servers say many things by one word, "failure". If the server still answers, it meant the folder.
                if folder == first or not self.answers():
                    raise
                why = str(error).removeprefix(f"{self.url}: ")
                yield Page([], [LeftOut(folder, f"cannot be listed: {why}", unread=True)])

    def page(
        self,
        folder: str,
        found: list[tuple[str, paramiko.SFTPAttributes]],
        waiting: list[str],
        reaches: Callable[[str], bool],
    ) -> Page:
        page = Page()
        for name, about in found:
            key = f"{folder}/{name}" if folder else name
            if stat.S_ISREG(about.st_mode or 0):
                page.add(self.entry(key, about))
            elif stat.S_ISDIR(about.st_mode or 0):
                if problem := paths.fault(key):
                    page.leave_out(key, problem)
                elif reaches(key):
                    waiting.append(key)
        return page

    def answers(self) -> bool:
        try:
            with self.pool.channel(self.url) as channel:
                channel.stat(self.path(""))
        except Failure:
            return False
        return True

    @contextmanager
    def publish(self, key: str) -> Iterator[Sink]:
        url = self.url_of(key)
        with failures(url):
            channel = self.pool.take()
        written = paths.unfinished(key, secrets.token_hex(8))
        file: paramiko.SFTPFile | None = None
        published = False
        try:
            with failures(url):
                self.make_folder(channel, key)
                file = channel.open(self.path(written), "wbx")
                file.set_pipelined(True)

            sink = Sink(self.writer(file, url))
            yield sink
            with failures(url):
                confirm(channel, file)
                file.close()
                size = channel.stat(self.path(written)).st_size
                if size != sink.size:
                    raise Transient(f"{url}: the server kept {size} of {sink.size} bytes")
                self.rename(channel, written, key)
            published = True
        finally:
            if file and not published:
                with suppress(OSError, EOFError, paramiko.SSHException):
                    file.close()  # the server must have let go of it before it is removed
                self.discard(written)
            self.pool.give(channel, published)

    def writer(self, file: paramiko.SFTPFile, url: str) -> Callable[[Buffer], None]:
        def write(data: Buffer) -> None:
            with failures(url):
                file.write(bytes(data))

        return write

    def discard(self, key: str) -> None:
        try:
            self.delete(key)
        except Failure as error:
            log.warning("an unfinished file may be left: %s", error)

    def make_folder(self, channel: paramiko.SFTPClient, key: str) -> None:
        for folder in paths.folders_of(key):
            if folder not in self.folders:
                with suppress(OSError):  # that it exists is no error
                    channel.mkdir(self.path(folder))
                self.folders.add(folder)

    def rename(self, channel: paramiko.SFTPClient, key: str, to: str) -> None:
        """Rename a file by the extension that replaces a file of the new name. OpenSSH and nearly all other servers
        have it; those that do not refuse to replace."""
        try:
            channel.posix_rename(self.path(key), self.path(to))
        except OSError as error:
            if error.errno is not None:
                raise
            channel.rename(self.path(key), self.path(to))

    def delete(self, *keys: str) -> None:
        for key in keys:
            with self.pool.channel(self.url_of(key)) as channel, suppress(FileNotFoundError):
                channel.remove(self.path(key))

    def move(self, key: str, to: str) -> None:
        self.url_of(to)
        with self.pool.channel(self.url_of(key)) as channel:
            self.entry(key, channel.stat(self.path(key)))
            if key != to:
                self.make_folder(channel, to)
                self.rename(channel, key, to)

    def move_new(self, key: str, to: str) -> bool:
        """Move a file by the plain renaming, which should not replace a file. Because on some servers it does, the new
        name is looked at first."""
        if self.exists(to):
            return False
        with self.pool.channel(self.url_of(key)) as channel:
            self.entry(key, channel.stat(self.path(key)))
            self.make_folder(channel, to)
            with suppress(OSError):
                channel.rename(self.path(key), self.path(to))
                return True
        if self.exists(to):  # a file of that name came just then
            return False
        raise Transient(f"{self.url_of(key)} could not be given the name {to}")

    def sweep(self, before: datetime, of: str = "") -> int:
        swept = 0
        for page in self.walk(paths.folder_of(of), lambda _: not of):
            for entry in page.entries:
                if paths.is_unfinished(entry.key, of) and entry.modified and entry.modified < before:
                    self.delete(entry.key)
                    swept += 1
        return swept
