"""Writing Parquet. A row group is written whenever there are rows enough for one, so that memory does not grow with the
file."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.exports.request import Compression, ExportRequest
from bulk_pipelines.resources.rules import OneOf
from bulk_pipelines.storage.contract import Sink

BATCH = 2 << 20
"""Bytes of rows that a reader hands over at a time. With smaller batches, the threads spend their time on waking each
other."""
ROW_GROUP = 8 << 20
"""Bytes of rows that are written as one group. Large groups are quicker to read, small ones take less memory to write.
"""
CODECS = {Compression.NONE: "zstd", Compression.GZIP: "gzip", Compression.ZSTD: "zstd"}
"""The compression inside the file, which is always compressed. zstd is quicker than snappy here and takes half the
space."""


def schema(request: ExportRequest) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.kind.arrow) for column in request.columns])


def written(request: ExportRequest, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    ready: list[bytes] = []
    sink: Any = Sink(lambda data: ready.append(bytes(data)))
    options: dict[str, Any] = {
        "compression": CODECS[request.compression],
        "use_dictionary": repeating(request),
        "column_encoding": {c.name: "DELTA_BINARY_PACKED" for c in request.columns if c.kind is ColumnKind.TIMESTAMP},
    }
    with pq.ParquetWriter(sink, schema(request), **options) as writer:
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


def repeating(request: ExportRequest) -> list[str]:
    """Return the paths of the columns whose values repeat, which get a dictionary. For other columns a dictionary is
    made in vain: it costs a third of the time, and is given up when it has grown too large."""
    referring = {reference.column for reference in request.declared.references}
    return [
        f"{column.name}.list.element" if column.kind is ColumnKind.TEXT_LIST else column.name
        for column in request.columns
        if column.kind is ColumnKind.TEXT_LIST
        or column.name in referring
        or any(isinstance(rule, OneOf) for rule in column.rules)
    ]
