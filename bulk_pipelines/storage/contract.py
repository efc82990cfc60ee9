"""What every storage promises. One test suite checks all storages against these promises.

A key is a relative path with forward slashes (`paths` has the rules). A file that is published appears whole or not at
all. A stream that ends without an error gave every byte of the one version that its entry names.
"""

from __future__ import annotations

import io
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from bulk_pipelines.storage import paths
from bulk_pipelines.storage.errors import Missing, SourceChanged

if TYPE_CHECKING:
    from typing_extensions import Buffer

LARGEST = (1 << 63) - 1
PAGE = 1_000
"""About how many files a storage lists at once."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """What the storage says of one file."""

    key: str
    size: int
    modified: datetime | None
    """The time of the last change, in UTC; None where the server does not tell it."""
    version: str
    """A text that changes whenever the content changes: the ETag, else the time of change and the size."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a listing passes over: a file whose name is no key, or what could not be looked at."""

    name: str
    """The name as the other side has it, so it may be any text."""
    why: str
    unread: bool = False
    """Whether there is something of that name of which nobody knows what it is, or what lies below it."""

    def __str__(self) -> str:
        shown = self.name if len(self.name) <= paths.LONGEST_KEY else f"{self.name[: paths.LONGEST_KEY]}…"
        return f"{shown!r} {self.why}"


@dataclass(slots=True)
class Page:
    """A part of a listing. An empty page says that the storage is still working on it."""

    entries: list[Entry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Add a file, or leave it out if its name or size cannot be taken. The other side decides on names and sizes,
        so a bad one must not stop the listing."""
        if problem := paths.fault(entry.key):
            self.leave_out(entry.key, problem)
        elif not 0 <= entry.size <= LARGEST:
            self.leave_out(entry.key, "has a size that no file has")
        else:
            self.entries.append(entry)

    def leave_out(self, name: str, why: str, unread: bool = False) -> None:
        self.left_out.append(LeftOut(name, why, unread))

    @property
    def full(self) -> bool:
        return len(self.entries) + len(self.left_out) >= PAGE


@dataclass(frozen=True, slots=True)
class Reader:
    """The bytes of a file, in pieces of some 100 kB to 8 MB."""

    entry: Entry
    pieces: Iterator[bytes]

    def __iter__(self) -> Iterator[bytes]:
        return self.pieces


class Sink(io.RawIOBase):
    """Where the bytes of a new file go. It has as much of a file object as the writers of file formats need."""

    def __init__(self, write: Callable[[Buffer], object]) -> None:
        super().__init__()
        self.size = 0
        self._write = write

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        self._write(data)
        written = memoryview(data).nbytes
        self.size += written
        return written

    def tell(self) -> int:
        return self.size


class Source(ABC):
    """A place whose files can be read: a storage, or a web server."""

    @abstractmethod
    def url_of(self, key: str) -> str:
        """Return the address of a file to show and to store, without password and query."""

    @abstractmethod
    def stat(self, key: str) -> Entry:
        """Return what the storage says of the file; raise `Missing` when there is none."""

    @abstractmethod
    def open(self, key: str) -> AbstractContextManager[Reader]:
        """Open the whole file as a stream, in constant memory."""

    def exists(self, key: str) -> bool:
        try:
            self.stat(key)
        except Missing:
            return False
        return True

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give connections back. The storage can be used again afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Storage(Source):
    """A folder of files, wherever it is. Threads may share a storage."""

    @abstractmethod
    def open(
        self, key: str, start: int = 0, stop: int | None = None, version: str | None = None
    ) -> AbstractContextManager[Reader]:
        """Open the file, or its bytes from `start` to before `stop`, as a stream. Raise `SourceChanged` if it is not
        the version that is given."""

    def read(self, key: str, start: int = 0, stop: int | None = None, version: str | None = None) -> bytes:
        """Return a range of the file as bytes. They are fewer, or none, where the file ends before the range does."""
        with self.open(key, start, stop, version) as reader:
            return b"".join(reader)

    @property
    @abstractmethod
    def url(self) -> str:
        """The address of the folder, as it may be shown."""

    @abstractmethod
    def pages(self, pattern: str = "**", aside: Collection[str] = ()) -> Iterator[Page]:
        """List the files that match (`paths.Pattern`), except those in the folders `aside`, which are not even looked
        into.

        The files come in no promised order, a bounded number at a time, and are never all held in memory. A caller who
        has no time left may stop after any page: there is a page after every answer of a server, even if it is empty. A
        folder below the first one that cannot be listed is left out, and so is a name that is no key; neither stops the
        listing of the others."""

    def entries(self, pattern: str = "**") -> Iterator[Entry]:
        """List the files that match. What is left out is logged."""
        for page in self.pages(pattern):
            for each in page.left_out:
                log.warning("left out of the listing of %s: %s", self.url, each)
            yield from page.entries

    @abstractmethod
    def publish(self, key: str) -> AbstractContextManager[Sink]:
        """Write a file. It appears when the block ends, and replaces a file of that name; an error in the block leaves
        nothing behind."""

    def put(self, key: str, data: bytes) -> Entry:
        """Publish a small file whose bytes are all there."""
        with self.publish(key) as sink:
            sink.write(data)
        return self.stat(key)

    def put_again(self, key: str, data: bytes) -> Entry:
        """Try `put` again after it was `Throttled`. This may be slower, but a refusal tells how long to wait if the
        server says so."""
        return self.put(key, data)

    def patience(self, key: str) -> float | None:  # noqa: ARG002
        """Ask the server again after another request was `Throttled`, and return how many seconds to wait, if it says
        so."""
        return None

    def signed_address(self, key: str) -> str | None:  # noqa: ARG002
        """Return an address at which anybody can fetch the file for an hour; None where there are no such addresses."""
        return None

    @abstractmethod
    def delete(self, *keys: str) -> None:
        """Remove files. A file that is not there is no error."""

    @abstractmethod
    def move(self, key: str, to: str) -> None:
        """Give a file another name in this storage. It replaces a file of that name."""

    @abstractmethod
    def move_new(self, key: str, to: str) -> bool:
        """Move a file unless there is a file of the new name. If there is one, move nothing and return False."""

    def take_away(self, key: str, version: str, to: str | None = None) -> None:
        """If the file is of this version, move it to the name `to`, which no other file has, or remove it if `to` is
        None.

        Another version stays where it is, or gets its name back if it was moved because it came in between; then raise
        `SourceChanged`. Raise `Missing` when there is no file. After this was cut short, it can be called again with
        the same result.
        """
        aside = to or paths.leaving(key, version)
        lies_there = self.version_of(key)
        if lies_there == version:
            self.move(key, aside)
        taken = self.version_of(aside)
        if taken is None and lies_there is None:
            raise Missing(f"{self.url_of(key)} does not exist")
        if taken == version:
            if to is None:
                self.delete(aside)
            return
        if taken is not None and not self.move_new(aside, key):
            self.delete(aside)  # a still newer one has replaced it
        raise SourceChanged(f"{self.url_of(key)} is no longer the version {version}: it was written to")

    def version_of(self, key: str) -> str | None:
        """Return the version of a file; None when there is no such file."""
        try:
            return self.stat(key).version
        except Missing:
            return None

    @abstractmethod
    def sweep(self, before: datetime, of: str = "") -> int:
        """Remove the unfinished files that killed writers left before that time, and return how many that were. `of`
        is the key whose unfinished files are meant; without it, all are."""


def copy(source: Source, key: str, target: Storage, to: str) -> None:
    """Copy one file through this process."""
    with source.open(key) as reader, target.publish(to) as sink:
        for piece in reader:
            sink.write(piece)
