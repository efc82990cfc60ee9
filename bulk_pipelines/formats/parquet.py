"""Writing Parquet. A row group is written whenever there are rows enough for one, so that memory does not grow with the
file."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Column
from bulk_pipelines.storage.contract import Sink

BATCH = 2 << 20
"""Bytes of rows that a reader hands over at a time. With smaller batches, the threads spend their time on waking each
other."""
ROW_GROUP = 8 << 20
"""Bytes of rows that are written as one group. Large groups are quicker to read, small ones take less memory to write.
"""


def schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.kind.arrow) for column in columns])


def written(
    columns: tuple[Column, ...],
    batches: Iterator[pa.RecordBatch],
    codec: str = "zstd",
    repeating: Sequence[str] = (),
) -> Iterator[bytes]:
    """Yield the file. `codec` is the compression inside it. `repeating` are the paths of the columns whose values
    repeat: these get a dictionary."""
    ready: list[bytes] = []
    sink: Any = Sink(lambda data: ready.append(bytes(data)))
    options: dict[str, Any] = {
        "compression": codec,
        "use_dictionary": list(repeating),
        "column_encoding": {c.name: "DELTA_BINARY_PACKED" for c in columns if c.kind is ColumnKind.TIMESTAMP},
    }
    with pq.ParquetWriter(sink, schema(columns), **options) as writer:
        group: list[pa.RecordBatch] = []
        held = 0
        for batch in batches:
            group.append(batch)
            held += batch.nbytes
            if held >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(group))
                group, held = [], 0
            yield b"".join(ready)
            ready.clear()
        if group:
            writer.write_table(pa.Table.from_batches(group))
    yield b"".join(ready)
