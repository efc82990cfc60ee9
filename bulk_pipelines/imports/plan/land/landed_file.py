"""Landed files: plain bytes that can be read in any order, in whatever storage they lie."""

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from bulk_pipelines.errors import Unavailable
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import SourceChanged
from bulk_pipelines.storage.local.stats import entry_of, identity


class LandedFile(Protocol):
    """A landed file. Several threads may read it at once."""

    @property
    def size(self) -> int: ...

    def read(self, start: int, stop: int) -> bytes:
        """Return all bytes from `start` to before `stop`; raise `Unavailable` if the file has become shorter."""
        ...


class LocalFile:
    """A landed file in a folder of this machine. What was opened is read, or nothing: if the name is given to another
    file, the reading goes on in the first, and after a write into the file every reading fails."""

    def __init__(self, path: Path) -> None:
        try:
            self.descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise Unavailable(f"the landed file {path} cannot be opened: {error.strerror}") from error
        self.path = path
        self.found = os.fstat(self.descriptor)
        self.size = self.found.st_size

    @property
    def version(self) -> str:
        """The version of the file, as the storage of its folder calls it."""
        return entry_of(self.path.name, self.found).version

    def read(self, start: int, stop: int) -> bytes:
        try:
            data = os.pread(self.descriptor, stop - start, start)
            while 0 < len(data) < stop - start:
                more = os.pread(self.descriptor, stop - start - len(data), start + len(data))
                if not more:
                    break
                data += more
            now = os.fstat(self.descriptor)
        except OSError as error:
            raise Unavailable(f"the landed file {self.path} cannot be read: {error.strerror}") from error
        data = whole(data, start, stop, str(self.path))
        if identity(now) != identity(self.found):
            raise SourceChanged(f"the landed file {self.path} was written to while it was read")
        return data

    def close(self) -> None:
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class StoredFile:
    """A landed file in a storage. The bytes of another version are never read: asking for them is an error."""

    storage: Storage
    key: str
    size: int
    version: str

    def read(self, start: int, stop: int) -> bytes:
        data = self.storage.read(self.key, start, stop, self.version)
        return whole(data, start, stop, self.storage.url_of(self.key))


def whole(data: bytes, start: int, stop: int, name: str) -> bytes:
    if len(data) < stop - start:
        raise Unavailable(f"the landed file {name} was cut short: it ends at byte {start + len(data)}, before {stop}")
    return data
