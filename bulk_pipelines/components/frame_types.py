"""Frames: tables in memory, as pyarrow, pandas and polars have them. pandas and polars are never imported here: whoever
asks for their frames has imported them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa

from bulk_pipelines.client.contents import reader_of
from bulk_pipelines.errors import InvalidInput

Frame = TypeVar("Frame")
KNOWN = "pyarrow.Table, pyarrow.RecordBatchReader, pandas.DataFrame, polars.DataFrame, polars.LazyFrame"


def name_of(wanted: object) -> str:
    """Return the name of a type with the name of its library, without importing the library."""
    library = getattr(wanted, "__module__", "").partition(".")[0]
    return f"{library}.{getattr(wanted, '__qualname__', wanted)}"


def check(wanted: object) -> None:
    """Refuse a type that no frame has."""
    if name_of(wanted) not in KNOWN.split(", "):
        raise InvalidInput("type", f"{name_of(wanted)} is no type of a frame; there are {KNOWN}")


def framed(reader: pa.RecordBatchReader, wanted: type[Frame]) -> Frame:
    """Return the rows in the type that is wanted. A reader fetches them while it is read; all others hold them."""
    check(wanted)
    found: Any
    match name_of(wanted):
        case "pyarrow.Table":
            found = reader.read_all()
        case "pandas.DataFrame":
            found = reader.read_pandas()
        case "polars.DataFrame" | "polars.LazyFrame":
            frame = sys.modules["polars"].from_arrow(reader.read_all())
            found = frame.lazy() if name_of(wanted) == "polars.LazyFrame" else frame
        case _:
            found = reader
    return found  # type: ignore[no-any-return]


@contextmanager
def spooled(frame: Any) -> Iterator[tuple[BinaryIO, int]]:
    """Write a frame to a temporary file, as a stream of Arrow, and yield the file and its number of rows. A reader can
    be read only once; a file is read again when it is compared with what was sent before."""
    reader = reader_of(with_index(frame))
    schema = pa.schema([each.with_type(storable(each.type)) for each in reader.schema])
    rows = 0
    with TemporaryFile() as file:
        with pa.ipc.new_stream(file, schema) as writer:
            for batch in reader:
                writer.write_batch(batch.cast(schema))
                rows += batch.num_rows
        yield file, rows


def with_index(frame: Any) -> Any:
    """Return the frame with the values of a named index of pandas as columns: such an index is data."""
    if name_of(type(frame)) == "pandas.DataFrame" and any(name is not None for name in frame.index.names):
        return frame.reset_index()
    return frame.collect() if name_of(type(frame)) == "polars.LazyFrame" else frame


def storable(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values of this type are written. Polars has views of texts, which few programs read."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind
