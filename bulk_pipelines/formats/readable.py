"""A file of which any part can be read, as the libraries want it that read archives and tables."""

import io
from typing import Any

from bulk_pipelines.formats.rows import Source


class Readable(io.RawIOBase):
    def __init__(self, source: Source) -> None:
        self.source = source
        self.position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.source.size}[whence]
        if base + offset < 0:
            raise OSError("a position before the beginning of the file")
        self.position = base + offset
        return self.position

    def readinto(self, target: Any) -> int:
        length = max(0, min(len(target), self.source.size - self.position))
        if length:
            target[:length] = self.source.read(self.position, self.position + length)
        self.position += length
        return length
