"""Reading Parquet and Arrow files as batches of rows, in constant memory."""

import io
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from bulk_pipelines.formats import rows
from bulk_pipelines.formats.ahead import ahead

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

BUFFER = 1 << 20
ARROW, PARQUET = b"ARROW1", b"PAR1"
STREAM = b"\xff\xff\xff\xff"


def parquet(file: BinaryIO) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the batches of a Parquet file. Rows are numbered from 1 on."""
    from pyarrow.parquet import ParquetFile  # an import that costs more than looking at a small file

    opened = ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
    return opened.schema_arrow, ahead(parquet_batches(file, opened))


def parquet_batches(file: BinaryIO, opened: "ParquetFile") -> Generator[pa.RecordBatch]:
    first = 1
    for group in range(opened.num_row_groups):
        size = batch_rows(file, opened, group)
        for batch in opened.iter_batches(size, row_groups=[group], use_threads=False):
            yield rows.numbered(batch, first)
            first += batch.num_rows


def batch_rows(file: BinaryIO, opened: "ParquetFile", group: int) -> int:
    """Return how many rows of a row group can be read at once. A dictionary may hold one value that is very long, and
    all rows may name it, so that a small file would fill the memory."""
    texts = [field.name for field in opened.schema_arrow if is_variable(rows.value_type(field.type))]
    if not texts:
        return rows.BATCH_ROWS * 8
    probe = type(opened)(file, read_dictionary=texts, buffer_size=BUFFER, pre_buffer=False)
    longest = 0
    for batch in probe.iter_batches(1, row_groups=[group], columns=texts, use_threads=False):
        for values in batch.columns:
            found: Any = values
            if pa.types.is_dictionary(found.type):
                longest += rows.longest_of(found.dictionary)
        break
    return max(1, min(rows.BATCH_ROWS * 8, rows.MOST_BYTES // max(1, longest)))


def is_variable(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def arrow(file: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the batches of an Arrow file or stream."""
    head = file.read(len(ARROW))
    file.seek(0, io.SEEK_SET)
    if head == ARROW:
        opened = pa.ipc.open_file(file)
        return opened.schema, numbered(opened.get_batch(number) for number in range(opened.num_record_batches))
    stream = pa.ipc.open_stream(file)
    return stream.schema, numbered(iter(stream))


def numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    first = 1
    for batch in batches:
        yield rows.numbered(batch, first)
        first += batch.num_rows
