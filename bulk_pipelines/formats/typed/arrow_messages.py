"""Arrow's messages, one by one: how much each unpacks to is known before it is read.

A stream is a row of messages: a head, its description as a flatbuffer, and a body. A file is the same behind its first
eight bytes. In a compressed body each buffer begins with its own plain length. All of it is part of Arrow's format, and
of its description only what is needed is read here.
"""

import io
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage.compression import HARMLESS
from bulk_pipelines.storage.errors import OverLimit

FILE = b"ARROW1"
BEFORE_MESSAGES = 8
CONTINUED = b"\xff\xff\xff\xff"
MOST_UNPACKED = 1 << 30
"""How many bytes a message may unpack to. It is unpacked as a whole."""
LONGEST_DESCRIPTION = 64 << 20
DICTIONARY, BATCH = 2, 3


class Messages(io.RawIOBase):
    """The messages of an Arrow file or stream as a stream. Each is looked at before any of it can be read."""

    def __init__(self, file: BinaryIO, ratio: float) -> None:
        super().__init__()
        self.file = file
        self.size = file.seek(0, io.SEEK_END)
        self.ratio = ratio
        self.left = 0
        file.seek(0)
        if file.read(len(FILE)) == FILE:
            file.seek(-len(FILE), io.SEEK_END)
            if file.read(len(FILE)) != FILE:
                raise InvalidInput("source", "the table cannot be read: the file is cut off")
            file.seek(BEFORE_MESSAGES)
        else:
            file.seek(0)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if not self.left:
            self.left = self.next_message()
        data = self.file.read(min(len(target), self.left))
        target[: len(data)] = data
        self.left -= len(data)
        return len(data)

    def next_message(self) -> int:
        """Return how many bytes the next message has, with its head, or the end of the stream. Leave the file where the
        message begins."""
        begin = self.file.tell()
        head = self.file.read(8)
        length, behind = (head[4:], 8) if head[:4] == CONTINUED else (head[:4], 4)
        described = int.from_bytes(length, "little", signed=True)
        if described <= 0 or described > LONGEST_DESCRIPTION:
            self.file.seek(begin)
            return len(head)
        self.file.seek(begin + behind)
        description = self.file.read(described)
        body = begin + behind + described
        try:
            size, buffers = told(description)
        except (struct.error, IndexError, ValueError):
            raise InvalidInput("source", "the table cannot be read: a message is damaged") from None
        if not 0 <= size <= self.size - body:
            raise InvalidInput("source", "the table cannot be read: the file is cut off")
        self.check(size, sum(self.plain_lengths(body, size, buffers)))
        self.file.seek(begin)
        return behind + described + size

    def plain_lengths(self, body: int, size: int, buffers: list[tuple[int, int]]) -> Iterator[int]:
        for offset, length in buffers:
            if length >= 8 and 0 <= offset <= size - length:
                self.file.seek(body + offset)
                yield max(0, int.from_bytes(self.file.read(8), "little", signed=True))

    def check(self, packed: int, plain: int) -> None:
        if plain > HARMLESS and plain > self.ratio * packed:
            raise OverLimit(
                "source",
                f"a batch of it unpacks to more than {self.ratio:g} times its size, see BULK_LANDING_MAX_RATIO",
            )
        if plain > MOST_UNPACKED:
            raise OverLimit(
                "source",
                f"a batch of it unpacks to {plain >> 20} MiB, and {MOST_UNPACKED >> 20} are the most: write it with"
                " fewer rows in a batch, or without compression",
            )


def told(description: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Return how many bytes the body of a message has, and where its compressed buffers lie in it."""
    message = Table(description, int.from_bytes(description[:4], "little"))
    kind, size = message.number(1, "<B"), message.number(3, "<q")
    if kind not in {DICTIONARY, BATCH}:
        return size, []
    batch = message.table(2)
    if kind == DICTIONARY and batch is not None:
        batch = batch.table(1)
    if batch is None or batch.table(3) is None:
        return size, []
    return size, [(offset, length) for offset, length in batch.structs(2, "<qq")]


class Table:
    """A table of a flatbuffer: its fields are found by their numbers, and any may be left out."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data = data
        self.place = place

    def field(self, number: int) -> int | None:
        """Return where the value of a field lies."""
        (back,) = struct.unpack_from("<i", self.data, self.place)
        fields = self.place - back
        (size,) = struct.unpack_from("<H", self.data, fields)
        if fields < 0 or 4 + 2 * number >= size:
            return None
        (found,) = struct.unpack_from("<H", self.data, fields + 4 + 2 * number)
        return self.place + found if found else None

    def number(self, number: int, form: str) -> int:
        place = self.field(number)
        return 0 if place is None else int(struct.unpack_from(form, self.data, place)[0])

    def table(self, number: int) -> "Table | None":
        place = self.field(number)
        return None if place is None else Table(self.data, place + struct.unpack_from("<I", self.data, place)[0])

    def structs(self, number: int, form: str) -> Iterator[tuple[int, ...]]:
        """Yield the values of a vector."""
        place = self.field(number)
        if place is None:
            return
        start = place + struct.unpack_from("<I", self.data, place)[0]
        (count,) = struct.unpack_from("<I", self.data, start)
        stop = start + 4 + count * struct.calcsize(form)
        if stop > len(self.data):
            raise ValueError("a vector ends behind the message")
        yield from struct.iter_unpack(form, self.data[start + 4 : stop])
