"""A folder of this machine.

A file is written under a temporary name beside its place, brought to the disk, and renamed: whoever reads finds the
old file or the new one. It is for its owner alone, and so are the folders that are made for it. Symbolic links may not
lead out of the folder.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bulk_pipelines.database import folders
from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import Entry, Reader, Sink, Storage, copy
from bulk_pipelines.storage.errors import (
    Full,
    Missing,
    Permanent,
    Refused,
    SourceChanged,
    StorageError,
    Transient,
    UnsafePath,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE = 1 << 20
KINDS: dict[int, type[StorageError]] = {
    **dict.fromkeys([errno.EACCES, errno.EPERM, errno.EROFS], Refused),
    **dict.fromkeys([errno.ENOSPC, errno.EDQUOT, errno.EFBIG], Full),
    **dict.fromkeys([errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EBUSY, errno.EMFILE, errno.ENFILE], Transient),
}

log = logging.getLogger(__name__)


class LocalStorage(Storage):
    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def url_of(self, key: str) -> str:
        return str(self.root / paths.check(key))

    def place(self, key: str, follow: bool = True) -> Path:
        """Where the key's file is, once it is certain that no link leads out; `follow` also looks through the file."""
        place = self.root / paths.check(key)
        real = real_path(place) if follow else real_path(place.parent) / place.name
        if not real.is_relative_to(real_path(self.root)):
            raise UnsafePath("path", f"{place} is a link that leads out of {self.root}")
        return place

    def stat(self, key: str) -> Entry:
        with translated(self.url_of(key)):
            return entry_of(key, regular(self.place(key).stat(), self.url_of(key)))

    @contextmanager
    def open(self, key: str, start: int = 0, stop: int | None = None, version: str | None = None) -> Iterator[Reader]:
        url = self.url_of(key)
        with translated(url):
            # Without O_NONBLOCK, opening a named pipe would wait for a writer.
            descriptor = os.open(self.place(key), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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

    def entries(self, pattern: str = "**") -> Iterator[Entry]:
        wanted = paths.Pattern(pattern)
        with translated(str(self.root)):
            regular_folder(self.root)
        waiting = [wanted.folder]
        while waiting:
            folder = waiting.pop()
            with translated(str(self.root / folder)):
                for found in scanned(self.place(folder) if folder else self.root):
                    key = f"{folder}/{found.name}" if folder else found.name
                    if found.is_dir(follow_symlinks=False):
                        waiting += [key] if wanted.reaches(key) and self.addressable(key) else []
                    elif wanted.matches(key) and (entry := self.listed(key, found)):
                        yield entry

    def listed(self, key: str, found: os.DirEntry[str]) -> Entry | None:
        """What a listing says of a file; None for what cannot be read as a file of this storage."""
        if paths.is_unfinished(key) or not self.addressable(key):
            return None
        try:
            if found.is_symlink():
                return self.stat(key)
            return entry_of(key, regular(found.stat(follow_symlinks=False), found.path))
        except UnsafePath as error:
            log.warning("left out of the listing of %s: %s", self.root, error)
        except (FileNotFoundError, Permanent):  # taken away since; or a pipe, a socket, a link to a folder
            pass
        return None

    def addressable(self, key: str) -> bool:
        if problem := paths.fault(key):
            log.warning("left out of the listing of %s: %r %s", self.root, key, problem)
        return problem is None

    @contextmanager
    def publish(self, key: str) -> Iterator[Sink]:
        url = self.url_of(key)
        with translated(url):
            target = self.place(key, follow=False)
            folders.private(target.parent)
            written = self.root / paths.unfinished(key, secrets.token_hex(8))
            file = open(written, "xb", buffering=PIECE, opener=folders.owner_only)  # noqa: SIM115 - closed below
        published = False

        def write(data: Buffer) -> None:
            with translated(url):
                file.write(data)

        try:
            yield Sink(write)
            with translated(url):
                file.flush()
                os.fsync(file.fileno())
                file.close()
                written.replace(target)
                published = True
                synced(target.parent)
        finally:
            if not published:
                with suppress(OSError):  # what stopped the writing may stop the last flush too
                    file.close()
                written.unlink(missing_ok=True)

    def delete(self, *keys: str) -> None:
        for key in keys:
            with translated(self.url_of(key)), suppress(FileNotFoundError, NotADirectoryError):
                self.place(key, follow=False).unlink()

    def move(self, key: str, to: str) -> None:
        url = self.url_of(key)
        with translated(url):
            place, target = self.place(key, follow=False), self.place(to, follow=False)
            regular(place.lstat(), url)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                place.replace(target)
            except OSError as error:
                if error.errno != errno.EXDEV:  # another disk is mounted below the folder
                    raise
                copy(self, key, self, to)
                place.unlink()
            synced(target.parent)

    def sweep(self, before: datetime, of: str = "") -> int:
        swept = 0
        name = of.rpartition("/")[2]
        waiting = [self.place(of, follow=False).parent] if of else [self.root]
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


def real_path(path: Path) -> Path:
    """Without links. (Path.resolve raises errors of its own at links in circles, which opening the file then tells.)"""
    return Path(os.path.realpath(path))


def scanned(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The names in a folder; none if it is gone."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        yield from found


def entry_of(key: str, found: os.stat_result) -> Entry:
    modified = datetime.fromtimestamp(found.st_mtime_ns / 1e9, UTC)
    return Entry(key, found.st_size, modified, f"{found.st_mtime_ns:x}-{found.st_size:x}")


def identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def regular(found: os.stat_result, url: str) -> os.stat_result:
    if stat.S_ISDIR(found.st_mode):
        raise Permanent(f"{url} is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise Permanent(f"{url} is a device or a pipe, not a file")
    return found


def regular_folder(folder: Path) -> None:
    if not stat.S_ISDIR(folder.stat().st_mode):
        raise Permanent(f"{folder} is a file, not a folder")


def synced(folder: Path) -> None:
    """Bring the names in a folder to the disk, so that a published file is there after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def translated(url: str) -> Iterator[None]:
    """The system's errors in the words of `errors`."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise error_of(error, url) from error


def error_of(error: OSError, url: str) -> StorageError:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return Missing(f"{url} does not exist")
        case IsADirectoryError():
            return Permanent(f"{url} is a folder, not a file")
    return KINDS.get(error.errno or 0, Permanent)(f"{url}: {error.strerror}")
