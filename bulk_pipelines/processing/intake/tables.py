"""XLSX, Parquet and Arrow files, and archives of files, are read as rows. A value of a table becomes the text that it
would be in a CSV file."""

import io
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import ZipInfo

import pyarrow as pa

from bulk_pipelines.counted import counted
from bulk_pipelines.errors import BulkError, InvalidInput
from bulk_pipelines.formats import parquet_rows, sheets, xlsx_book
from bulk_pipelines.formats.files import workbooks
from bulk_pipelines.formats.files.archives import MAGICS, Archive
from bulk_pipelines.formats.row_values import RowValues
from bulk_pipelines.formats.rows import Source
from bulk_pipelines.formats.xlsx_rows import Reader
from bulk_pipelines.processing.intake import records
from bulk_pipelines.processing.intake.archives import BUFFER, Stored
from bulk_pipelines.processing.intake.rows import Records, Row, Told, check_columns, unreadable
from bulk_pipelines.processing.request import Format
from bulk_pipelines.storage.compression import Compression, recognised
from bulk_pipelines.storage.landing import Limits
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines.storage.seeking import SeekableFile

HEAD = 8
BROKEN = (pa.ArrowException, KeyError, OSError, ValueError)
PARTS = (parquet_rows.PARQUET, parquet_rows.ARROW, parquet_rows.STREAM, *MAGICS)
"""How files begin that cannot be read as a stream: their readers jump to other parts of them."""
Table = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def is_table(head: bytes) -> bool:
    """Tell whether a file that begins like this is a table, or an archive."""
    return head.startswith(PARTS)


def opened(source: Source, shown: str, told: Told, limits: Limits, *, inside: bool = False) -> Records:
    """Begin to read a table, or the files of an archive. `inside` tells that the file came out of an archive."""
    head = source.read(0, min(HEAD, source.size))
    if head.startswith(MAGICS):
        archive = Archive(source, shown, limits)
        if archive.is_workbook:
            records.check_format(told, Format.XLSX)
            return peeked(Format.XLSX, told, sheet(archive, told))
        if inside:
            raise InvalidInput("source", f"{shown} is an archive in an archive: pack its files themselves")
        return members(archive, told, limits)
    found = Format.PARQUET if head.startswith(parquet_rows.PARQUET) else Format.ARROW
    records.check_format(told, found)
    read = parquet_rows.parquet if found is Format.PARQUET else parquet_rows.arrow
    try:
        file = io.BufferedReader(SeekableFile(source.size, source.read), BUFFER)
        return peeked(found, told, read(cast(BinaryIO, file), limits.ratio))
    except BulkError:
        raise
    except BROKEN as error:
        raise broken(error) from None


def sheet(archive: Archive, told: Told) -> Table:
    book = xlsx_book.read(archive.unpack)
    name, part = workbooks.chosen(archive, book, told.reading.sheet)
    reading = told.reading
    options = (reading.skip_lines, reading.no_header, reading.fields)
    return Reader(archive.unpack, book, name, part, *options, numbers=reading.decimal is not None).table()


def peeked(found: Format, told: Told, table: Table) -> Records:
    schema, batches = table
    page = sheets.told(schema)
    names = schema.names if page is None else page.fields
    if page is not None and told.reading.no_header:
        names = told.fields_of(names)
    columns = tuple(name.strip() for name in names)
    check_columns(columns)
    width = len(columns)
    as_told = RowValues(width, told.reading.nulls, range(width) if told.reading.decimal else ())
    return records.peeked(Records(found, values(columns, batches, as_told), columns))


def broken(error: Exception) -> InvalidInput:
    return InvalidInput("source", f"the table cannot be read: {' '.join(str(error).split())[:300]}")


def values(columns: tuple[str, ...], batches: Iterator[pa.RecordBatch], as_told: RowValues) -> Iterator[Row]:
    """Yield the rows of a table. The first two columns of a batch are the number of a row, and how many values it has
    too many."""
    try:
        for batch in batches:
            numbers, surplus, *_ = batch.columns
            texts = [each.to_pylist() for each in as_told.texts(batch)]
            for number, extra, *row in zip(numbers.to_pylist(), surplus.to_pylist(), *texts, strict=True):
                yield dict(zip(columns, row, strict=True)) if not extra else too_wide(number, len(columns), extra)
    except BulkError:
        raise
    except BROKEN as error:
        raise broken(error) from None


def too_wide(number: int, width: int, extra: int) -> Row:
    return unreadable(f"{counted(width + extra, 'value')} instead of {width}", number)


def members(archive: Archive, told: Told, limits: Limits) -> Records:
    """Begin to read the chosen files of an archive, one after the other. All must have the columns of the first."""
    first, *others = archive.members(told.reading.member)
    told = replace(told, for_others=told.for_others or bool(others))
    begun = member(archive, first, told, limits)

    def rows() -> Iterator[Row]:
        yield from begun
        for each in others:
            found = member(archive, each, told, limits)
            if set(found.columns) != set(begun.columns):
                columns = f"{', '.join(found.columns[:50])}, and {first.filename} has {', '.join(begun.columns[:50])}"
                raise InvalidInput("source", f"{archive.shown}/{each.filename} has the columns {columns}: see --member")
            yield from found

    return Records(begun.format, rows(), begun.columns)


def member(archive: Archive, info: ZipInfo, told: Told, limits: Limits) -> Records:
    shown, pieces = f"{archive.shown}/{info.filename}", archive.unpack(info)
    first = next(pieces, b"")
    if recognised(first) is not Compression.NONE:
        raise InvalidInput("source", f"{shown} is compressed again in the archive: pack it as it is")
    if not is_table(first):
        return records.opened(chain([first], pieces), told)
    return unpacked(chain([first], pieces), shown, told, limits, inside=True)


def unpacked(pieces: Iterable[bytes], shown: str, told: Told, limits: Limits, *, inside: bool = False) -> Records:
    """Read a table that comes as a stream: it is written to a file, which is removed when its rows were read."""
    folder = tempfile.TemporaryDirectory()
    storage = LocalStorage(Path(folder.name))
    with storage.publish("table") as sink:
        for piece in pieces:
            sink.write(piece)
    found = opened(Stored(storage, "table"), shown, told, limits, inside=inside)

    def rows() -> Iterator[Row]:
        with folder, storage:
            yield from found

    return replace(found, rows=rows(), peeked=[])
