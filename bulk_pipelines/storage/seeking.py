"""A file that libraries may jump about in, read by ranges."""

import io
from collections.abc import Callable
from typing import Any


class SeekableFile(io.RawIOBase):
    """A file object for libraries that read archives and tables. `read(start, stop)` returns all bytes of a range."""

    def __init__(self, size: int, read: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self.size = size
        self.read_range = read
        self.position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise OSError("a position before the beginning of the file")
        self.position = base + offset
        return self.position

    def readinto(self, target: Any) -> int:
        stop = min(self.position + len(target), self.size)
        if stop <= self.position:
            return 0
        data = self.read_range(self.position, stop)
        target[: len(data)] = data
        self.position += len(data)
        return len(data)
