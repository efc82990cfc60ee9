"""Reading Parquet and Arrow files as batches of rows with plain values, in constant memory."""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from bulk_pipelines.columns.arrow import Column, compute
from bulk_pipelines.formats import rows
from bulk_pipelines.formats.ahead import ahead
from bulk_pipelines.formats.typed import arrow_plain, arrow_sizes, arrow_text
from bulk_pipelines.formats.typed.arrow_messages import Messages
from bulk_pipelines.storage.compression import HARMLESS
from bulk_pipelines.storage.errors import OverLimit

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

Table = tuple[pa.Schema, Iterator[pa.RecordBatch]]
BUFFER = 1 << 20
ARROW, PARQUET = b"ARROW1", b"PAR1"
STREAM = b"\xff\xff\xff\xff"
AT_ONCE = 65_536
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
"""How many bytes a value of Parquet takes in memory; of a text it is what tells its length."""


def parquet(file: BinaryIO, ratio: float) -> Table:
    """Return the schema and the batches of a Parquet file. Rows are numbered from 1 on. `ratio` tells how many times
    its size a file may unpack to."""
    from pyarrow.parquet import ParquetFile  # an import that costs more than looking at a small file

    opened = ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
    arrow_text.refuse_unreadable(opened.schema_arrow)
    size = file.seek(0, 2)
    return arrow_plain.plain_schema(opened.schema_arrow), ahead(numbered(row_groups(file, opened, size * ratio)))


def row_groups(file: BinaryIO, opened: "ParquetFile", most: float) -> Iterator[pa.RecordBatch]:
    """Yield the row groups in batches. Texts in lists come as the dictionaries that the file has, because nobody knows
    before how many a row has of them."""
    for group in range(opened.num_row_groups):
        in_lists = packed_in_lists(opened, group)
        reader = reopened(file, opened, in_lists) if in_lists else opened
        yield from reader.iter_batches(batch_rows(file, opened, group, most), row_groups=[group], use_threads=False)


def reopened(file: BinaryIO, opened: "ParquetFile", texts: list[str]) -> "ParquetFile":
    """Open the file again so that these texts come as dictionaries."""
    return type(opened)(file, metadata=opened.metadata, read_dictionary=texts, buffer_size=BUFFER, pre_buffer=False)


def packed_in_lists(opened: "ParquetFile", group: int) -> list[str]:
    """Return the paths of texts that stand in lists and of which one may stand for many."""
    return [
        path
        for place, path, kind in leaves(opened)
        if kind.physical_type == "BYTE_ARRAY"
        and kind.max_repetition_level
        and opened.metadata.row_group(group).column(place).has_dictionary_page
    ]


def leaves(opened: "ParquetFile") -> Iterator[tuple[int, str, Any]]:
    """Yield the columns of values, which are fields or lie in them: the place, the path and the description of each."""
    schema: Any = opened.schema
    for place in range(len(schema)):
        yield place, schema.column(place).path, schema.column(place)


def batch_rows(file: BinaryIO, opened: "ParquetFile", group: int, most: float) -> int:
    """Return how many rows of a row group can be read at once: so many that they take about as much memory as a batch
    may. One row could have all values of the group, so these may not take too much either."""
    described = opened.metadata.row_group(group)
    count = max(1, described.num_rows)
    repeated = longest = 0
    texts = []
    for place, path, kind in leaves(opened):
        width = kind.length if kind.physical_type == "FIXED_LEN_BYTE_ARRAY" else WIDTHS[kind.physical_type]
        if kind.max_repetition_level:
            repeated += described.column(place).num_values * width
        elif kind.physical_type == "BYTE_ARRAY":
            texts.append(path)
        else:
            longest += width
    if repeated > max(HARMLESS, most):
        raise OverLimit("source", "its lists unpack to too many times its size, see BULK_LANDING_MAX_RATIO")
    longest += repeated // count + longest_texts(file, opened, group, texts)
    return max(1, min(AT_ONCE, arrow_sizes.MOST_BYTES // max(1, longest)))


def longest_texts(file: BinaryIO, opened: "ParquetFile", group: int, texts: list[str]) -> int:
    """Return how many bytes a row has if each of these texts is the longest of its dictionary."""
    if not texts:
        return 0
    probe = reopened(file, opened, texts)
    for batch in probe.iter_batches(1, row_groups=[group], columns=texts, use_threads=False):
        return sum(map(longest_of, batch.columns))
    return 0


def longest_of(values: Column) -> int:
    if pa.types.is_struct(values.type):
        return sum(map(longest_of, values.flatten()))
    if not pa.types.is_dictionary(values.type) or not len(values.dictionary):
        return 0
    return compute.max(compute.binary_length(values.dictionary)).as_py() or 0


def arrow(file: Any, ratio: float) -> Table:
    """Return the schema and the batches of an Arrow file or stream."""
    stream = pa.ipc.open_stream(Messages(file, ratio))
    arrow_text.refuse_unreadable(stream.schema)
    return arrow_plain.plain_schema(stream.schema), numbered(map(sound, stream))


def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Raise an error if the batch names what it does not have, which a damaged file may do. Texts may hold any bytes:
    they are judged value by value."""
    for values in batch.columns:
        any_values: Column = values
        if not pa.types.is_primitive(values.type):
            (any_values.view(pa.binary()) if pa.types.is_string(values.type) else any_values).validate(full=True)
    return batch


def numbered(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    """Yield batches with plain values, and with the numbers of their rows."""
    first = 1
    for batch in batches:
        for piece in arrow_sizes.pieces(batch):
            yield rows.numbered(piece, first)
            first += piece.num_rows
