"""Zip archives in any storage. Any of their files can be read at any time."""

import io
import zipfile
from functools import lru_cache

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.seeking import SeekableFile

BUFFER = 1 << 18
END, END_64 = b"PK\x05\x06", b"PK\x06\x06"
TAIL = (1 << 16) + 200
"""How many of the last bytes of an archive are searched for its end."""
LONGEST_LIST = 64 << 20
"""The longest list of files in bytes, which is some 600,000 names: the whole list is held in memory."""


class Stored:
    """A file in a storage, of which any part can be read."""

    def __init__(self, storage: Storage, key: str) -> None:
        self.storage, self.key = storage, key
        self.size = storage.stat(key).size

    def read(self, start: int, stop: int) -> bytes:
        return self.storage.read(self.key, start, stop)


@lru_cache(maxsize=4)
def opened(address: str, chosen: Settings) -> zipfile.ZipFile:
    """Open an archive; its list of files is read once for each process. Threads may share it."""
    storage, key = locations.file(address, access_of(chosen), "landed")
    check_list(storage, key)
    try:
        stored = Stored(storage, key)
        return zipfile.ZipFile(io.BufferedReader(SeekableFile(stored.size, stored.read), BUFFER))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise InvalidInput("source", f"the file is no zip archive that can be read: {error}") from None


def check_list(storage: Storage, key: str) -> None:
    """Raise `InvalidInput` if the archive says that its list of files is too long to be read."""
    size = storage.stat(key).size
    tail = storage.read(key, max(0, size - TAIL), size)
    lengths = [number(tail, place + 12, 4) for place in places(tail, END)]
    lengths += [number(tail, place + 40, 8) for place in places(tail, END_64)]
    if any(LONGEST_LIST < each != 0xFFFF_FFFF for each in lengths):
        raise InvalidInput("source", f"the archive's list of files has more than {LONGEST_LIST:,} bytes: split it")


def places(data: bytes, sign: bytes) -> list[int]:
    found, place = [], data.find(sign)
    while place >= 0:
        found.append(place)
        place = data.find(sign, place + 1)
    return found


def number(data: bytes, place: int, size: int) -> int:
    return int.from_bytes(data[place : place + size], "little")
