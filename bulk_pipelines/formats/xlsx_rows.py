"""Reading a sheet of an XLSX workbook as rows of texts, some thousand rows at a time."""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bulk_pipelines.columns.arrow import compute
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats import rows, xlsx_book, xlsx_scan
from bulk_pipelines.formats.ahead import ahead
from bulk_pipelines.formats.sheets import KEPT, Sheet
from bulk_pipelines.formats.xlsx_book import Book, Unpack, damaged
from bulk_pipelines.formats.xlsx_scan import Cells, Ints

CHUNK = 2 << 20
LONGEST_ROW = 64 << 20
BEGIN = re.compile(rb"<((?:\w+:)?)sheetData\s*(/?)>")
ROOT = re.compile(rb"<(?:\w+:)?worksheet\b[^>]*>")
DAY = 86_400_000
EXCEL_ZERO = -25_569 * DAY
MICROSECONDS = 1_000 * DAY
# Sums of hours may miss midnight by fewer than SUMS microseconds, and Excel shows them as midnight. A number that is
# one microsecond before midnight, as far as its digits tell, is the end of a day that somebody wrote.
SUMS = 20
LAST_MICROSECOND = (0.9, 1.6)
LAST_SERIAL = 2_958_466
# Numbers with a power of ten are odd, and so are those with a point and sixteen or seventeen digits, which are as many
# as it takes to tell the numbers of cells apart.
SHOWN_DIGITS, SHORT = 15, 13
ODD_NUMBER = r"E|^-?0\.0*\d{16,17}$|^-?[1-9][\d.]{16,17}$"


@dataclass
class Reader:
    """Reads one sheet. `skip` rows are left out, then the header is read unless there is none. With `numbers`, as many
    columns stand behind the fields, which tell of each cell whether it is a number and no text."""

    unpack: Unpack
    book: Book
    name: str
    part: str
    skip: int = 0
    no_header: bool = False
    given: tuple[str, ...] = ()
    numbers: bool = False
    header: int = 0
    fields: tuple[str, ...] = ()
    first: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    last: int = 0

    def table(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema and the batches. Rows without any value are left out."""
        shared = xlsx_book.shared(self.unpack)
        grids = (self.grid(cells, shared) for cells in ahead(self.cells()))
        begun: list[Grid] = []
        for grid in grids:
            begun.append(grid)
            self.note_first(grid)
            if grid.count:
                break
        left = [rest for each in begun if (rest := self.begin(each)) is not None]
        if not self.fields:
            raise damaged(f"the sheet {self.name} is empty")
        schema = pa.schema([(name, pa.string()) for name in numbered_apart(self.fields)])
        if self.numbers:
            schema = pa.schema([*schema, *(pa.field(f"is {name} a number", pa.bool_()) for name in schema.names)])
        sheet = Sheet(self.name, self.fields, self.header, tuple(self.first))
        return schema.with_metadata(sheet.as_metadata()), self.batches(left, grids, schema)

    def batches(self, begun: list["Grid"], others: Iterator["Grid"], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        whole = pa.schema([*rows.OWN, *schema])
        for grid in chain(begun, others):
            yield from grid.batches(len(self.fields), whole, numbers=self.numbers)

    def note_first(self, grid: "Grid") -> None:
        for place in range(min(grid.count, KEPT)):
            self.first.append((int(grid.numbers[place]), grid.row(place)))

    def begin(self, grid: "Grid") -> "Grid | None":
        """Take the header from the first rows, and return what stands behind it."""
        if self.fields or not grid.count:
            return grid if grid.count else None
        cells = grid.row(0)
        while cells and not cells[-1].strip():
            cells = cells[:-1]
        if self.no_header:
            self.fields = self.given or tuple(f"field {place}" for place in range(1, len(cells) + 1))
            return grid
        self.header, self.fields = int(grid.numbers[0]), tuple(cell.strip() for cell in cells)
        return grid.behind_first()

    def cells(self) -> Generator[Cells]:
        """Yield the cells of the sheet, those of some thousand rows at a time."""
        left, root, prefix, going = b"", b"", b"", False
        for piece in self.unpack(self.part):
            left += piece
            if not going:
                begin = BEGIN.search(left)
                if begin is None:
                    if len(left) > LONGEST_ROW:
                        raise damaged(f"the sheet {self.name} does not begin")
                    continue
                found = ROOT.search(left)
                if found is None or b"<!DOCTYPE" in left[: begin.start()] or begin[2]:
                    raise damaged(f"the sheet {self.name} is empty, or declares entities")
                root, prefix, going = found[0], begin[1], True
                left = left[begin.end() :]
            if len(left) < CHUNK:
                continue
            whole, left = self.parted(left, prefix)
            if whole:
                yield xlsx_scan.scan(whole, root, prefix)
        end = left.find(b"</" + prefix + b"sheetData")
        if not going or end < 0:
            raise damaged(f"the sheet {self.name} is cut off")
        yield xlsx_scan.scan(left[:end], root, prefix)

    def parted(self, data: bytes, prefix: bytes) -> tuple[bytes, bytes]:
        """Return the whole rows, and what stands behind them."""
        close = b"</" + prefix + b"row>"
        end = data.rfind(close) + len(close)
        if end < len(close):
            if len(data) > LONGEST_ROW:
                raise damaged(f"a row of the sheet {self.name} has more than {LONGEST_ROW} bytes")
            return b"", data
        # Behind the rows there may be more than cells; it stays for the end.
        stop = data.find(b"</" + prefix + b"sheetData")
        return (data[:end], data[end:]) if stop < 0 else (b"", data)

    def grid(self, cells: Cells, shared: Any) -> "Grid":
        kept = cells.rows > self.skip
        if not kept.all():
            cells = cells.take(np.flatnonzero(kept))
        if len(cells.rows):
            if int(cells.rows[0]) <= self.last or (np.diff(cells.rows) < 0).any():
                raise damaged(f"the rows of the sheet {self.name} are not in their order")
            self.last = int(cells.rows[-1])
        if cells.unknown is not None:
            told = f"the value of the formula in the cell {cells.unknown} of the sheet {self.name} was not saved"
            raise InvalidInput("source", f"{told}: open the workbook in Excel or LibreOffice, and save it")
        numbers, place = np.unique(cells.rows, return_inverse=True)
        are_numbers = self.are_numbers(cells)
        return Grid(numbers, place, cells.columns, self.texts(cells, shared, are_numbers), are_numbers)

    def are_numbers(self, cells: Cells) -> npt.NDArray[np.bool_]:
        """Tell which cells are numbers, and no dates."""
        found: npt.NDArray[np.bool_] = cells.kinds == xlsx_scan.NUMBER
        found &= ~np.isin(cells.styles, list(self.book.dates))
        return found

    def texts(self, cells: Cells, shared: Any, are_numbers: npt.NDArray[np.bool_]) -> Any:
        """Return what the cells say."""
        found = cells.texts
        is_shared = cells.kinds == xlsx_scan.SHARED
        if is_shared.any():
            try:
                index = found.filter(pa.array(is_shared)).cast(pa.int32())
                found = replaced(found, is_shared, shared.take(index))
            except (pa.ArrowInvalid, pa.ArrowIndexError):
                raise damaged(f"a cell of the sheet {self.name} names a text that is not there") from None
        flags = cells.kinds == xlsx_scan.FLAG
        if flags.any():
            told = compute.if_else(compute.equal(found.filter(pa.array(flags)), "1"), "true", "false")
            found = replaced(found, flags, told)
        odd = are_numbers.copy()
        dates = (cells.kinds == xlsx_scan.NUMBER) & ~odd
        if dates.any():
            found = replaced(found, dates, moments(found.filter(pa.array(dates)), self.book.from_1904))
        odd[odd] = compute.match_substring_regex(found.filter(pa.array(odd)), ODD_NUMBER).to_numpy(zero_copy_only=False)
        if odd.any():
            written = [plainly(each) for each in found.filter(pa.array(odd)).to_pylist()]
            found = replaced(found, odd, pa.array(written))
        return found


@dataclass(frozen=True)
class Grid:
    """Some rows: their numbers, and for each cell the place of its row, its column, what it says, and whether that is a
    number."""

    numbers: Ints
    place: Ints
    columns: Ints
    texts: Any
    are_numbers: npt.NDArray[np.bool_]

    @property
    def count(self) -> int:
        return len(self.numbers)

    def row(self, place: int) -> tuple[str, ...]:
        cells = np.flatnonzero(self.place == place)
        found = {int(self.columns[cell]): self.texts[cell].as_py() or "" for cell in cells.tolist()}
        return tuple(found.get(column, "") for column in range(min(max(found, default=-1) + 1, 16_384)))

    def behind_first(self) -> "Grid":
        kept = np.flatnonzero(self.place > 0)
        texts, are_numbers = self.texts.take(pa.array(kept)), self.are_numbers[kept]
        return Grid(self.numbers[1:], self.place[kept] - 1, self.columns[kept], texts, are_numbers)

    def batches(self, width: int, schema: pa.Schema, *, numbers: bool) -> Iterator[pa.RecordBatch]:
        if not self.count:
            return
        surplus = np.bincount(self.place[self.columns >= width], minlength=self.count).astype(np.int32)
        columns, flags = [], []
        for column in range(width):
            cells = np.flatnonzero(self.columns == column)
            index = np.full(self.count, -1)
            index[self.place[cells]] = cells
            columns.append(self.texts.take(pa.array(index, mask=index < 0)))
            if numbers:
                is_number = np.zeros(self.count, dtype=bool)
                is_number[self.place[cells]] = self.are_numbers[cells]
                flags.append(pa.array(is_number))
        arrays: Any = [pa.array(self.numbers), pa.array(surplus), *columns, *flags]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def numbered_apart(fields: tuple[str, ...]) -> list[str]:
    """Return the names of the fields, so that no two columns have the same one."""
    return [f"{place} {name}" for place, name in enumerate(fields)]


def replaced(values: Any, mask: Any, with_these: Any) -> Any:
    return compute.replace_with_mask(values, pa.array(mask), with_these.cast(pa.string()))


def moments(serials: Any, from_1904: bool) -> Any:
    """Return Excel's days since 1900 as dates, dates with times, or times of the day. A value that is no such number
    stays what it is. They are rounded to milliseconds, but not to another day. The 29th of February 1900, which Excel
    has and no calendar, counts as the day before it."""
    days = numbers(serials)
    known = (days >= 0) & (days < LAST_SERIAL)
    days = np.where(known, days, 0)
    of_day = (days >= 0) & (days < 1)
    if from_1904:
        days = days + 1462
        of_day = np.zeros(len(days), dtype=bool)
    stamps = np.round(np.where(days < 60, days + 1, days) * DAY).astype(np.int64) + EXCEL_ZERO
    near = last_moments(days, of_day)
    stamps[near] -= 1
    text = pa.array(stamps).cast(pa.timestamp("ms")).cast(pa.string())
    day, clock = compute.utf8_slice_codeunits(text, 0, -13), compute.utf8_slice_codeunits(text, -12)
    clock = compute.replace_substring_regex(clock, r"\.000$", "")
    if near.any():
        told = np.minimum(np.round(days[near] % 1 * MICROSECONDS), MICROSECONDS - 1).astype(np.int64)
        clock = replaced(clock, near, pa.array([f"23:59:59.{each % 1_000_000:06}" for each in told.tolist()]))
    whole = compute.binary_join_element_wise(day, clock, "T")
    found = compute.if_else(compute.equal(clock, "00:00:00"), day, whole)
    found = compute.if_else(pa.array(of_day), clock, found)
    return compute.if_else(pa.array(known), found, serials)


def last_moments(days: npt.NDArray[np.float64], of_day: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Tell which numbers would be rounded to the next day, though they are moments of this one."""
    before = (1 - days % 1) * MICROSECONDS
    first, last = LAST_MICROSECOND
    is_noise = (before < first) | ((before > last) & (before < SUMS))
    found: npt.NDArray[np.bool_] = (before <= 500) & (of_day | ~is_noise)
    return found


def numbers(texts: Any) -> npt.NDArray[np.float64]:
    """Read numbers. A text that is not a number becomes -1."""
    try:
        found: npt.NDArray[np.float64] = texts.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return np.array([number(each) for each in texts.to_pylist()])
    return found


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


def plainly(text: str) -> str:
    """Write a number such as 1.5E+17 with all its digits, if they are not too many, and one such as 918.57000000000005,
    as Excel writes 918.57, with the fewest digits that mean the same number. Excel itself shows and compares fifteen
    digits: where these are a shorter number, as of 918.5700000000001, the others are noise of its calculations."""
    if "E" not in text and "." not in text:
        return text
    try:
        value = float(text)
    except ValueError:
        return text
    if f"{value:.{SHORT}g}" == f"{value:.{SHOWN_DIGITS}g}":
        value = float(f"{value:.{SHORT}g}")
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
