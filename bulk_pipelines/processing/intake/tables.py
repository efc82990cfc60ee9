"""Files that are tables, as rows: XLSX, Parquet and Arrow. A value is the text that it would have in a CSV file."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from lzma import LZMAError
from typing import BinaryIO, cast

import pyarrow as pa

from bulk_pipelines.counted import counted
from bulk_pipelines.errors import BulkError, InvalidInput
from bulk_pipelines.formats import arrow_text, parquet_rows, sheets, xlsx_book
from bulk_pipelines.formats.xlsx_book import Book, Unpack
from bulk_pipelines.formats.xlsx_rows import Reader
from bulk_pipelines.processing.intake.archives import BUFFER, Ranges, check_list
from bulk_pipelines.processing.intake.rows import Records, Row, check_columns, unreadable
from bulk_pipelines.processing.request import Format
from bulk_pipelines.storage.compression import PIECE
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import BadCompression, OverLimit
from bulk_pipelines.storage.landing import Limits

ZIP = b"PK\x03\x04"
HEAD = 8
HAS_CELLS = 4 << 20
BROKEN = (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, ValueError, RuntimeError, NotImplementedError)
"""What unpacking raises of a workbook that is damaged, hostile or packed in an unusual way."""
Table = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def format_of(head: bytes) -> Format | None:
    """Return the format of a file that begins like this, if it is a table."""
    if head.startswith(parquet_rows.PARQUET):
        return Format.PARQUET
    if head.startswith((parquet_rows.ARROW, parquet_rows.STREAM)):
        return Format.ARROW
    return Format.XLSX if head.startswith(ZIP) else None


def opened(storage: Storage, key: str, found: Format, limits: Limits) -> Records:
    """Begin to read a table."""
    file = cast(BinaryIO, io.BufferedReader(Ranges(storage, key), BUFFER))
    try:
        if found is Format.XLSX:
            check_list(storage, key)
            schema, batches = sheet(file, storage.stat(key).size, limits)
        else:
            schema, batches = (parquet_rows.parquet if found is Format.PARQUET else parquet_rows.arrow)(file)
    except BulkError:
        raise
    except (pa.ArrowException, KeyError, *BROKEN) as error:
        raise broken(error) from None
    told = sheets.told(schema)
    columns = tuple(name.strip() for name in (schema.names if told is None else told.fields))
    check_columns(columns)
    return Records(found, values(columns, batches), columns)


def broken(error: Exception) -> InvalidInput:
    return InvalidInput("source", f"the table cannot be read: {' '.join(str(error).split())[:300]}")


def values(columns: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of a table. The first two columns of a batch say where a row stood, and how many values it has
    beyond the columns."""
    try:
        for batch in batches:
            numbers, surplus, *cells = batch.columns
            texts = [arrow_text.text_of(each).to_pylist() for each in cells]
            for number, extra, *row in zip(numbers.to_pylist(), surplus.to_pylist(), *texts, strict=True):
                yield dict(zip(columns, row, strict=True)) if not extra else too_wide(number, len(columns), extra)
    except BulkError:
        raise
    except (pa.ArrowException, KeyError, *BROKEN) as error:
        raise broken(error) from None


def too_wide(number: int, width: int, extra: int) -> Row:
    return unreadable(f"{counted(width + extra, 'value')} instead of {width}", number)


def sheet(file: BinaryIO, size: int, limits: Limits) -> Table:
    """Open the one sheet of a workbook that has cells."""
    archive = zipfile.ZipFile(file)
    if "xl/workbook.xml" not in archive.NameToInfo:
        raise InvalidInput("source", "the file is a zip archive; it must be a file with rows, or an .xlsx workbook")
    unpack = unpacking(archive, size, limits)
    book = xlsx_book.read(unpack)
    name, part = only_sheet(archive, book, size, limits)
    return Reader(unpack, book, name, part).table()


def unpacking(archive: zipfile.ZipFile, size: int, limits: Limits) -> Unpack:
    """Return what unpacks parts of a workbook, all together within the limits of files."""
    most = min(limits.largest, max(int(limits.ratio * size), PIECE))
    unpacked = 0

    def unpack(part: str) -> Iterator[bytes]:
        nonlocal unpacked
        if part not in archive.NameToInfo:
            return
        try:
            with archive.open(part) as reader:
                while piece := reader.read(PIECE):
                    unpacked += len(piece)
                    if unpacked > most:
                        raise OverLimit("source", f"the workbook unpacks to more than {most:,} bytes")
                    yield piece
        except BROKEN as error:
            raise BadCompression("source", f"the workbook is damaged: {error}") from None

    return unpack


def only_sheet(archive: zipfile.ZipFile, book: Book, size: int, limits: Limits) -> tuple[str, str]:
    """Return the name and the part of the one sheet that is meant: of several, nobody said which."""
    visible = [(name, part) for name, part, hidden in book.sheets if not hidden]
    full = [each for each in visible if len(visible) == 1 or has_cells(unpacking(archive, size, limits), each[1])]
    if len(full) != 1:
        named = ", ".join(repr(name[:40]) for name, _ in full[:5]) or "none that is shown"
        raise InvalidInput("source", f"the workbook has several sheets with cells ({named}): save one of them alone")
    return full[0]


def has_cells(unpack: Unpack, part: str) -> bool:
    seen = 0
    for piece in unpack(part):
        seen += len(piece)
        if b"<v>" in piece or b"<v " in piece or b"<is>" in piece:
            return True
        if seen > HAS_CELLS:
            return False
    return False
