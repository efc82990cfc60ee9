"""Counting the rows of a published file from the file alone, to compare the count with that of the database."""

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.storage import compression
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.seeking import SeekableFile

WINDOW = 1 << 20
"""Bytes that are read at a time of a Parquet, XLSX or Arrow file; readers of the first two jump about in it."""
ROW = b"<row "


def rows_in(storage: Storage, key: str, request: ExportRequest) -> int:
    """Count the rows of the file, in constant memory."""
    match request.format:
        case Format.CSV:
            return max(0, ended_lines(unpacked(storage, key, request)) - 1)
        case Format.NDJSON:
            return sum(piece.count(b"\n") for piece in unpacked(storage, key, request))
        case Format.JSON:
            # Each record has a line, and so have the two brackets around them; `[]` is one line.
            lines = sum(piece.count(b"\n") for piece in unpacked(storage, key, request))
            return max(0, lines - 2)
        case Format.PARQUET:
            with opened(storage, key) as file:
                return int(pq.read_metadata(file).num_rows)
        case Format.ARROW:
            with opened(storage, key) as file:
                return sum(batch.num_rows for batch in pa.ipc.open_stream(file))
        case Format.XLSX:
            with opened(storage, key) as file, zipfile.ZipFile(file) as archive:
                sheets = [name for name in archive.namelist() if name.startswith("xl/worksheets/")]
                return sum(rows_of_sheet(archive, name) for name in sheets)


def unpacked(storage: Storage, key: str, request: ExportRequest) -> Iterator[bytes]:
    packed = compression.Compression(request.compression)
    with storage.open(key) as reader:
        yield from compression.unpacked(reader, packed, storage.url_of(key)) if reader.entry.size else ()


def ended_lines(pieces: Iterator[bytes]) -> int:
    """Count the line ends of a CSV file that stand outside of quotes. A doubled quote ends a quoted part and begins
    another one."""
    lines, quoted = 0, False
    for piece in pieces:
        for number, part in enumerate(piece.split(b'"')):
            quoted = quoted if number == 0 else not quoted
            lines += 0 if quoted else part.count(b"\n")
    return lines


def rows_of_sheet(archive: zipfile.ZipFile, name: str) -> int:
    """Count the rows of a sheet without its header. In text, `<` is always escaped, so whatever looks like a row is
    one."""
    rows, before = -1, b""
    with archive.open(name) as sheet:
        while piece := sheet.read(WINDOW):
            data = before + piece
            rows += data.count(ROW)
            before = data[-len(ROW) + 1 :]
    return rows


@contextmanager
def opened(storage: Storage, key: str) -> Iterator[Any]:
    """Open a stored file as a file object that can seek. All that is read is of the version that is there now."""
    entry = storage.stat(key)

    def read(start: int, stop: int) -> bytes:
        return storage.read(key, start, stop, entry.version)

    with io.BufferedReader(SeekableFile(entry.size, read), WINDOW) as file:
        yield file
