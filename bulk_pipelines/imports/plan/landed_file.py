"""Landed files: plain bytes that can be read in any order, in whatever storage they lie."""

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from bulk_pipelines.errors import Unavailable
from bulk_pipelines.storage.contract import Storage


class LandedFile(Protocol):
    """A landed file. Several threads may read it at once."""

    @property
    def size(self) -> int: ...

    def read(self, start: int, stop: int) -> bytes:
        """Return all bytes from `start` to before `stop`; raise `Unavailable` if the file has become shorter."""
        ...


class LocalFile:
    """A landed file in a folder of this machine."""

    def __init__(self, path: Path) -> None:
        try:
            self.descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise Unavailable(f"the landed file {path} cannot be opened: {error.strerror}") from error
        self.path = path
        self.size = os.fstat(self.descriptor).st_size

    def read(self, start: int, stop: int) -> bytes:
        try:
            data = os.pread(self.descriptor, stop - start, start)
            while 0 < len(data) < stop - start:
                more = os.pread(self.descriptor, stop - start - len(data), start + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise Unavailable(f"the landed file {self.path} cannot be read: {error.strerror}") from error
        return whole(data, start, stop, str(self.path))

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
    """A landed file in a storage. With a `version`, reading a file that was replaced is an error; without one it could
    give a mixture of both files."""

    storage: Storage
    key: str
    size: int
    version: str | None = None

    def read(self, start: int, stop: int) -> bytes:
        data = self.storage.read(self.key, start, stop, self.version)
        return whole(data, start, stop, self.storage.url_of(self.key))


def whole(data: bytes, start: int, stop: int, name: str) -> bytes:
    if len(data) < stop - start:
        raise Unavailable(f"the landed file {name} was cut short: it ends at byte {start + len(data)}, before {stop}")
    return data
