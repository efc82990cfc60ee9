"""What can be sent: files, bytes, and tables of pyarrow, pandas and other libraries that speak Arrow. Contents come in
pieces, so that no more than some megabytes are held at once."""

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from bulk_pipelines.counted import counted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import bundles

if TYPE_CHECKING:
    import pyarrow as pa

MEDIA_TYPE = "application/octet-stream"
PIECE = 1 << 20
BEGINNING = 4 << 20
"""How many bytes of a file are sent for a preview, if the file can be read from its beginning."""
LARGEST_LOOK = 32 << 20
"""The largest archive or table that is sent for a preview. It is sent whole."""
WHOLE = (b"PK\3\4", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")
"""How files begin that cannot be read without their end: zip and XLSX, Parquet, Arrow."""
ROWS = 20_000
"""How many rows of a table are written at once."""


@dataclass(frozen=True)
class Content:
    """What is sent."""

    pieces: Iterator[bytes]
    name: str | None = None
    length: int | None = None
    """How many bytes there are, if that is known."""
    several: bool = False
    """Whether this is a bundle of several files."""


@contextmanager
def opened(source: Any) -> Iterator[Content]:
    """Open what is to be sent: a path, bytes, a file that is open for reading bytes, or a table."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        try:
            file = path.open("rb")
        except OSError as error:
            raise unreadable(path, error) from None
        with file:
            size = os.fstat(file.fileno()).st_size if path.is_file() else None
            yield Content(read(file), path.name, size)
    elif isinstance(source, bytes | bytearray | memoryview):
        yield Content(read(io.BytesIO(source)), None, len(source))
    elif hasattr(source, "read"):
        yield Content(read(source), None)
    else:
        yield Content(of_table(source))


@contextmanager
def opened_together(source: Any) -> Iterator[Content]:
    """Open what `opened` opens, or several paths."""
    if isinstance(source, list | tuple) and len(source) != 1:
        yield together([path_of(each) for each in source])
        return
    with opened(source[0] if isinstance(source, list | tuple) else source) as content:
        yield content


def together(paths: list[Path]) -> Content:
    """Return several files as one bundle. They are called by what tells them apart: their paths below the folder that
    all of them lie in."""
    if not 0 < len(paths) <= bundles.MOST_FILES:
        raise InvalidInput("source", f"{len(paths):,} files are named: send from 1 to {bundles.MOST_FILES:,}")
    whole = [Path(os.path.abspath(path)) for path in paths]  # noqa: PTH100 - a link keeps its name
    folder = os.path.commonpath([path.parent for path in whole])
    names = [path.relative_to(folder).as_posix() for path in whole]
    sizes = [size_of(path) for path in paths]
    known = [(name, size) for name, size in zip(names, sizes, strict=True) if size is not None]
    files = ((name, whole_file(path, size)) for name, path, size in zip(names, paths, sizes, strict=True))
    length = bundles.length(known) if len(known) == len(paths) else None
    return Content(bundles.packed(files), counted(len(paths), "file"), length, several=True)


def path_of(source: Any) -> Path:
    if not isinstance(source, str | os.PathLike):
        raise InvalidInput("source", f"several files are named by their paths, not by a {type(source).__name__}")
    return Path(source)


def size_of(path: Path) -> int | None:
    """Return the size of a file that can be read; None of a pipe, which is not opened twice."""
    try:
        if path.is_fifo():
            return None
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise unreadable(path, error) from None


def whole_file(path: Path, size: int | None) -> Iterator[bytes]:
    """Yield a file in pieces, if it still has the size that was told."""
    arrived = 0
    try:
        with path.open("rb") as file:
            for piece in read(file):
                arrived += len(piece)
                yield piece
    except OSError as error:
        raise unreadable(path, error) from None
    if size not in (None, arrived):
        raise InvalidInput("source", f"{path} was written to while it was sent: send it again")


def unreadable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput("source", f"{path} cannot be read: {error.strerror}")


def headers_of(content: Content) -> dict[str, str]:
    """Return the headers that say what is sent."""
    if content.name is None:
        return {"Content-Type": MEDIA_TYPE}
    return {
        "Content-Type": MEDIA_TYPE,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(content.name)}",
    }


def beginning(content: Content) -> tuple[bytes, bool]:
    """Return enough of a content for a preview, and whether more follows. A text can be cut, even if it is compressed;
    an archive or a table cannot."""
    data = bytearray()
    for piece in content.pieces:
        data += piece
        if len(data) > BEGINNING and not data.startswith(WHOLE):
            return bytes(data[:BEGINNING]), True
        if len(data) > LARGEST_LOOK:
            raise InvalidInput("source", f"has more than {LARGEST_LOOK:,} bytes: only a text may be cut")
    return bytes(data), False


def read(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        if not isinstance(piece, bytes):
            raise InvalidInput("source", "is open for reading text: open it for reading bytes, in the mode rb")
        yield piece


def of_table(table: Any) -> Iterator[bytes]:
    """Yield a table as CSV. Lists are written as JSON arrays."""
    import pyarrow as pa  # noqa: PLC0415 - only tables need it
    from pyarrow import csv  # noqa: PLC0415

    reader = reader_of(table)
    header = True
    for batch in batches(reader):
        columns = [plain(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
        sink = pa.BufferOutputStream()
        try:
            rows = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
            csv.write_csv(rows, sink, csv.WriteOptions(include_header=header))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidInput("source", f"cannot be written as CSV: {error}") from None
        header = False
        yield sink.getvalue().to_pybytes()


def batches(reader: "pa.RecordBatchReader") -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa  # noqa: PLC0415

    empty = True
    for batch in reader:
        for start in range(0, batch.num_rows, ROWS):
            empty = False
            yield batch.slice(start, ROWS)
    if empty:
        yield pa.RecordBatch.from_pylist([], schema=reader.schema)


def reader_of(table: Any) -> "pa.RecordBatchReader":
    import pyarrow as pa  # noqa: PLC0415

    try:
        if isinstance(table, pa.RecordBatchReader):
            return table
        if type(table).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(table, preserve_index=False).to_reader()
        return pa.RecordBatchReader.from_stream(table)
    except (TypeError, AttributeError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput(
            "source", f"a {type(table).__name__} is neither a path nor bytes, a file or a table: {error}"
        ) from None


def plain(name: str, column: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return a column as CSV can hold it."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if isinstance(column.type, pa.UuidType):
        return pa.array([None if each is None else str(each) for each in column.to_pylist()], pa.string())
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        texts = [None if each is None else json.dumps(each, ensure_ascii=False) for each in column.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        raise InvalidInput("source", f"the column {name} is a {column.type}, which has no form in CSV")
    return column
