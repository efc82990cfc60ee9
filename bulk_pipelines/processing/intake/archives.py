"""Zip archives in any storage, of which any file can be read at any time."""

import io
import zipfile
from functools import lru_cache

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage

BUFFER = 1 << 18


class Ranges(io.RawIOBase):
    """A file in a storage, of which any part can be read."""

    def __init__(self, storage: Storage, key: str) -> None:
        super().__init__()
        self.storage, self.key = storage, key
        self.size = storage.stat(key).size
        self.place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.place = {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.size}[whence] + offset
        return self.place

    def tell(self) -> int:
        return self.place

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        stop = min(self.place + len(view), self.size)
        if stop <= self.place:
            return 0
        data = self.storage.read(self.key, self.place, stop)
        view[: len(data)] = data
        self.place += len(data)
        return len(data)


@lru_cache(maxsize=4)
def opened(address: str, chosen: Settings) -> zipfile.ZipFile:
    """Open an archive; its list of files is read once for each process. Threads may share it."""
    storage, key = locations.file(address, access_of(chosen), "landed")
    try:
        return zipfile.ZipFile(io.BufferedReader(Ranges(storage, key), BUFFER))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise InvalidInput("source", f"the file is no zip archive that can be read: {error}") from None
