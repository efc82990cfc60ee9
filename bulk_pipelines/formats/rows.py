"""Rows: batches of Arrow in a file that can be cut into byte ranges. Files that are tables are landed in this form.

The file begins with its schema. Each batch stands behind a head that says how long it is, how many rows it has, and
which number the first of them has. The first two columns of a batch are the number of each row in its source,
and how many values it had beyond the fields of the table.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

MAGIC = b"BULKROWS"
HEAD = struct.Struct("<8sQ")
BATCH_HEAD = struct.Struct("<QQQ")
NUMBER, SURPLUS = "number of the row", "surplus values"
OWN = (pa.field(NUMBER, pa.int64()), pa.field(SURPLUS, pa.int32()))
BATCH_ROWS = 4_000
BATCH_BYTES = 16 << 20
"""About how many bytes a batch has at most: larger ones are cut."""


class Source(Protocol):
    """A file of which any part can be read."""

    @property
    def size(self) -> int: ...

    def read(self, start: int, stop: int) -> bytes: ...


@dataclass(frozen=True)
class Place:
    """Where a batch lies: from `start` to before `stop`. Its first row has the number `first`."""

    start: int
    stop: int
    rows: int
    first: int


def written(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield the file in pieces. The batches have our own columns first, and then those of the schema. Their values are
    plain (`arrow_plain`)."""
    metadata: Any = schema.metadata
    whole = pa.schema([*OWN, *schema], metadata)
    head = bytes(memoryview(whole.serialize()))
    yield HEAD.pack(MAGIC, len(head)) + head
    for batch in batches:
        for piece in pieces_of(batch):
            data = memoryview(piece.serialize())
            first = piece.column(0)[0].as_py()
            yield BATCH_HEAD.pack(len(data), piece.num_rows, first)
            yield bytes(data)


def pieces_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch as ones that have not too many rows and bytes."""
    if not batch.num_rows:
        return
    parts = max(-(-batch.num_rows // BATCH_ROWS), -(-batch.nbytes // BATCH_BYTES))
    step = max(1, batch.num_rows // parts)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def numbered(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Return the batch with our own columns before its columns. Its rows are numbered from `first` on, and have no
    surplus values."""
    count = batch.num_rows
    numbers: Any = pa.array(np.arange(first, first + count))
    surplus: Any = pa.array(np.zeros(count, dtype=np.int32))
    return pa.RecordBatch.from_arrays([numbers, surplus, *batch.columns], schema=pa.schema([*OWN, *batch.schema]))


def is_rows(head: bytes) -> bool:
    return head.startswith(MAGIC)


def opened(source: Source) -> tuple[pa.Schema, int]:
    """Return the schema of a file of rows, with our own columns, and the position of the first batch."""
    _, length = HEAD.unpack(source.read(0, HEAD.size))
    start = HEAD.size + length
    return pa.ipc.read_schema(pa.py_buffer(source.read(HEAD.size, start))), start


def places(source: Source, start: int, stop: int | None = None) -> Iterator[Place]:
    """Yield where those batches lie that begin at `start` or behind it, and before `stop`."""
    stop = source.size if stop is None else stop
    while start < stop:
        length, count, first = BATCH_HEAD.unpack(source.read(start, start + BATCH_HEAD.size))
        yield Place(start, start + BATCH_HEAD.size + length, count, first)
        start += BATCH_HEAD.size + length


def read(source: Source, place: Place, schema: pa.Schema) -> pa.RecordBatch:
    data = source.read(place.start + BATCH_HEAD.size, place.stop)
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)
