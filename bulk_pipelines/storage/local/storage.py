"""A folder of this machine.

A file is written under a temporary name beside its place, brought to the disk, and renamed, so a reader finds the old
file or the new one. It is for its owner alone, and so are the folders that are made for it. Symbolic links may not lead
out of the folder, not even one that appears between two steps.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bulk_pipelines.database import folders
from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import Entry, LeftOut, Page, Reader, Sink, Storage
from bulk_pipelines.storage.errors import SourceChanged, UnsafePath
from bulk_pipelines.storage.local import beneath
from bulk_pipelines.storage.local.errors import GONE, NO_LINKS, error_of, translated
from bulk_pipelines.storage.local.flushing import Flushing
from bulk_pipelines.storage.local.stats import entry_of, identity, regular, regular_folder

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE = 1 << 20
LEADS_OUT = "is a link that leads out of the folder"


class LocalStorage(Storage):
    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def url_of(self, key: str) -> str:
        return str(self.root / paths.check(key))

    def held(
        self, key: str, *, follow: bool = False, make: int | None = None
    ) -> AbstractContextManager[tuple[int, str]]:
        """Open the folder of the key's file, and yield it with the file's name in it. With `follow`, the file itself
        may be a link."""
        return beneath.held(self.root, paths.check(key), follow=follow, make=make)

    def inner(self, folder: str) -> Path:
        """Return the path of a folder in this one, once it is certain that no link leads out."""
        beneath.within(self.root, folder, follow=True)
        return self.root / folder

    def stat(self, key: str) -> Entry:
        with translated(self.url_of(key)):
            return entry_of(key, regular(self.seen(key), self.url_of(key)))

    def seen(self, key: str) -> os.stat_result:
        with self.held(key, follow=True) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    @contextmanager
    def open(self, key: str, start: int = 0, stop: int | None = None, version: str | None = None) -> Iterator[Reader]:
        url = self.url_of(key)
        with translated(url):
            # Without O_NONBLOCK, opening a named pipe would wait for a writer.
            how = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            with self.held(key, follow=True) as (folder, name):
                descriptor = os.open(name, how, dir_fd=folder)
        try:
            with translated(url):
                found = regular(os.fstat(descriptor), url)
            entry = entry_of(key, found)
            if version is not None and entry.version != version:
                raise SourceChanged(f"{url} is not the version that was asked for: it was written to since")
            yield Reader(entry, self.pieces(descriptor, found, key, start, stop))
        finally:
            os.close(descriptor)

    def pieces(self, descriptor: int, found: os.stat_result, key: str, start: int, stop: int | None) -> Iterator[bytes]:
        url = self.url_of(key)
        end = found.st_size if stop is None else min(stop, found.st_size)
        while start < end:
            with translated(url):
                piece = os.pread(descriptor, min(PIECE, end - start), start)
            if not piece:
                raise SourceChanged(f"{url} became shorter while it was read")
            start += len(piece)
            yield piece
        with translated(url):
            if identity(os.fstat(descriptor)) != identity(found):
                raise SourceChanged(f"{url} was written to while it was read")
        try:
            now = (self.root / key).stat()
        except OSError:
            raise SourceChanged(f"{url} was removed while it was read") from None
        if identity(now) != identity(found):
            raise SourceChanged(f"{url} was replaced while it was read")

    @property
    def url(self) -> str:
        return str(self.root)

    def pages(self, pattern: str = "**", aside: Collection[str] = ()) -> Iterator[Page]:
        wanted = paths.Pattern(pattern)
        with translated(self.url):
            regular_folder(self.root)
        waiting = [wanted.folder]
        while waiting:
            folder = waiting.pop()
            try:
                yield from self.pages_of(folder, wanted, aside, waiting)
            except OSError as error:
                if folder == wanted.folder:
                    raise error_of(error, str(self.root / folder)) from error
                yield Page([], [LeftOut(folder, f"cannot be listed: {error.strerror}", unread=True)])
            except UnsafePath:  # the folder was replaced by a link since it was listed
                if folder == wanted.folder:
                    raise
                yield Page([], [LeftOut(folder, LEADS_OUT)])

    def pages_of(
        self, folder: str, wanted: paths.Pattern, aside: Collection[str], waiting: list[str]
    ) -> Iterator[Page]:
        """Yield the files of one folder, and add the folders in it to `waiting`."""
        page = Page()
        for found in scanned(self.inner(folder) if folder else self.root):
            key = f"{folder}/{found.name}" if folder else found.name
            if not found.is_dir(follow_symlinks=False):
                self.add(page, wanted, key, found)
            elif problem := paths.fault(key):
                page.leave_out(key, problem)
            elif key not in aside and wanted.reaches(key):
                waiting.append(key)
            if page.full:
                yield page
                page = Page()
        yield page

    def add(self, page: Page, wanted: paths.Pattern, key: str, found: os.DirEntry[str]) -> None:
        """Add a file to a page of a listing. What is no file, such as a pipe or a link to a folder, is passed over."""
        if problem := paths.fault(key):
            page.leave_out(key, problem)
        elif wanted.matches(key) and not paths.is_unfinished(key):
            try:
                seen = self.seen(key) if found.is_symlink() else found.stat(follow_symlinks=False)
                if stat.S_ISREG(seen.st_mode):
                    page.add(entry_of(key, seen))
            except UnsafePath:
                page.leave_out(key, LEADS_OUT)
            except OSError as error:
                if error.errno not in GONE:
                    page.leave_out(key, f"cannot be looked at: {error.strerror}", unread=True)

    @contextmanager
    def publish(self, key: str) -> Iterator[Sink]:
        url = self.url_of(key)
        with ExitStack() as until_published:
            with translated(url):
                folders.private(self.root)
                folder, name = until_published.enter_context(self.held(key, make=0o700))
                written = paths.unfinished(name, secrets.token_hex(8))
                owner_only = partial(os.open, mode=0o600, dir_fd=folder)
                file = open(written, "xb", buffering=PIECE, opener=owner_only)  # noqa: SIM115 - closed below
            published = False
            flushing = Flushing(file.fileno())

            def write(data: Buffer) -> None:
                with translated(url):
                    flushing.wrote(file.write(data))

            try:
                with closing(flushing):
                    yield Sink(write)
                with translated(url):
                    flushing.finish()
                    file.flush()
                    os.fsync(file.fileno())
                    file.close()
                    os.replace(written, name, src_dir_fd=folder, dst_dir_fd=folder)
                    published = True
                    synced(folder)
            finally:
                if not published:
                    with suppress(OSError):  # closing flushes, which may fail as the writing did
                        file.close()
                    with suppress(FileNotFoundError):
                        os.unlink(written, dir_fd=folder)

    def delete(self, *keys: str) -> None:
        for key in keys:
            with (
                translated(self.url_of(key)),
                suppress(FileNotFoundError, NotADirectoryError),
                self.held(key) as (folder, name),
            ):
                os.unlink(name, dir_fd=folder)

    def move(self, key: str, to: str) -> None:
        url = self.url_of(key)
        paths.check(to)
        with translated(url), self.held(key) as (folder, name):
            regular(os.stat(name, dir_fd=folder, follow_symlinks=False), url)
            with self.held(to, make=0o777) as (target, new):
                try:
                    os.replace(name, new, src_dir_fd=folder, dst_dir_fd=target)
                except OSError as error:
                    if error.errno != errno.EXDEV:  # another disk is mounted below the folder
                        raise
                    self.copy_over(key, to)
                synced(target)

    def copy_over(self, key: str, to: str) -> None:
        """Move a file to another disk by copying it. Its time of change is kept, so that it stays the same version."""
        before = self.stat(key).version
        with self.open(key, version=before) as reader, self.publish(to) as sink:
            for piece in reader:
                sink.write(piece)
        with self.held(key) as (folder, name), self.held(to) as (target, new):
            times = os.stat(name, dir_fd=folder, follow_symlinks=False)
            os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns), dir_fd=target, follow_symlinks=False)
        self.take_away(key, before)

    def move_new(self, key: str, to: str) -> bool:
        url = self.url_of(key)
        paths.check(to)
        with translated(url), self.held(key) as (folder, name), self.held(to, make=0o777) as (target, new):
            regular(os.stat(name, dir_fd=folder, follow_symlinks=False), url)
            try:
                os.link(name, new, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
                if self.exists(to):
                    return False
                self.move(key, to)
                return True
            os.unlink(name, dir_fd=folder)
            synced(target)
        return True

    def sweep(self, before: datetime, of: str = "") -> int:
        swept = 0
        name = of.rpartition("/")[2]
        waiting = [self.inner(paths.folder_of(paths.check(of)))] if of else [self.root]
        while waiting:
            with translated(str(waiting[-1])):
                for found in scanned(waiting.pop()):
                    if found.is_dir(follow_symlinks=False):
                        waiting += [] if of else [Path(found.path)]
                    elif paths.is_unfinished(found.name, name):
                        with suppress(FileNotFoundError):
                            if found.stat(follow_symlinks=False).st_mtime < before.timestamp():
                                Path(found.path).unlink()
                                swept += 1
        return swept


def scanned(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder; none if the folder is gone."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        yield from found


def synced(folder: int) -> None:
    """Bring the names in a folder to the disk, so that a published file is there after a power cut."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
