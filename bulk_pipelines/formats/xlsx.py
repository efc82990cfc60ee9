"""XLSX: a zip of XML, written as it goes, a batch of rows at a time. docs/exports.md has the form of each cell.

The libraries for this format make an object of every cell, which takes twenty times as long, and give the first bytes
at the end (docs/benchmarks.md).
"""

import zipfile
from collections.abc import Iterator

import pyarrow as pa

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.formats import xlsx_package
from bulk_pipelines.formats.xlsx_cells import rows_of
from bulk_pipelines.resources.declaration import Column
from bulk_pipelines.storage.contract import Sink

SHEET_ROWS = 1_048_576
"""The most rows of a worksheet, with the header."""
SHEET_BYTES = 1 << 30
"""How many bytes of XML a sheet holds before the next is begun: an entry of a zip without extensions holds 2 GiB."""
BATCH = 1 << 20
OWN_FORM = {ColumnKind.BOOLEAN, ColumnKind.TIMESTAMP, ColumnKind.SMALLINT, ColumnKind.INTEGER}
LEVEL = 2
"""The level of compression. Files are 10 % larger than with the usual 6, and take a third of the time."""


def schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the types in which rows are written. Lists are the JSON that their cells hold. Whatever has no form of
    its own in a cell is text."""
    return pa.schema(
        [pa.field(column.name, column.kind.arrow if column.kind in OWN_FORM else pa.string()) for column in columns]
    )


def written(title: str, columns: tuple[Column, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield the file. Its sheets are named after the title."""
    ready: list[bytes] = []
    sink = Sink(lambda data: ready.append(bytes(data)))
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for name, content in xlsx_package.first_parts():
            add(archive, name, content)
        left, sheets = RowsLeft(batches), 0
        while left.more() or not sheets:
            sheets += 1
            with archive.open(xlsx_package.sheet_path(sheets), "w") as sheet:
                size, row = sheet.write(xlsx_package.sheet_start(columns)), 2
                while row <= SHEET_ROWS and size < SHEET_BYTES and (batch := left.take(SHEET_ROWS - row + 1)):
                    size += sheet.write(rows_of(columns, batch, row))
                    row += batch.num_rows
                    yield b"".join(ready)
                    ready.clear()
                sheet.write(xlsx_package.SHEET_END)
        for name, content in xlsx_package.last_parts(title, sheets):
            add(archive, name, content)
    yield b"".join(ready)


def add(archive: zipfile.ZipFile, name: str, content: str) -> None:
    """Add a small part. Unlike `writestr`, this does not put the time into the file, so that the same content gives the
    same bytes."""
    with archive.open(name, "w") as part:
        part.write(content.encode())


class RowsLeft:
    """The batches, of which any number of rows can be taken from the front."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches = batches
        self.front: pa.RecordBatch | None = None

    def more(self) -> bool:
        while self.front is None or not self.front.num_rows:
            self.front = next(self.batches, None)
            if self.front is None:
                return False
        return True

    def take(self, at_most: int) -> pa.RecordBatch | None:
        if not self.more():
            return None
        assert self.front is not None
        taken = self.front.slice(0, at_most)
        self.front = self.front.slice(at_most)
        return taken
