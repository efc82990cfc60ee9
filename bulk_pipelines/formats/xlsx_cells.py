"""Rows of an XLSX sheet as XML, made column by column: no cell is ever an object of its own."""

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.xlsx_package import MOMENT, column_letters
from bulk_pipelines.resources.declaration import Column

CELL_CHARACTERS = 32_767
"""The most characters of a cell, in UTF-16, as Excel counts them."""

# Excel counts days from 1899-12-30, which is right from March 1900 on, and ends with the year 9999. It would show what
# is behind the last whole millisecond of a day as the next day.
DAY = 86_400_000_000
EXCEL_ZERO = -25_569 * DAY
FIRST_MOMENT = 61 * DAY
LAST_MOMENT = 2_958_466 * DAY
LAST_OF_DAY = DAY - 1_000
# The calendar repeats itself after 400 years.
CYCLE_YEARS, CYCLE = 400, 146_097 * DAY

# What XML cannot hold, and the text that stands for such a character, are written as _xHHHH_. A lone carriage return
# would be read back as a line feed.
CONTROL = bytes({*range(0x20)} - {0x09, 0x0A})
UNSAFE = "[\x01-\x08\x0b-\x1f\ufffe\uffff]|_x[0-9A-Fa-f]{4}_"
UNSAFE_ONE = re.compile("[\x01-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")

# pyarrow's stubs refuse the mixtures of arrays and constants that its functions take.
pc: Any = pyarrow.compute
Values = Any
"""An Arrow array."""
Pieces = list[Any]
"""What `pc.binary_join_element_wise` puts together for each row: constants, and arrays of text."""


def rows_of(columns: tuple[Column, ...], batch: pa.RecordBatch, first: int) -> memoryview:
    """Write the batch as <row> elements. The first of them has the number `first`."""
    numbers = pa.array(range(first, first + batch.num_rows)).cast(pa.string())
    pieces: Pieces = ['<row r="', numbers, '">']
    for index, (column, values) in enumerate(zip(columns, batch.columns, strict=True)):
        pieces += cell(f'<c r="{column_letters(index)}', numbers, content(column, values, first), values)
    pieces.append("</row>")
    xml = pc.binary_join_element_wise(*merged(pieces), "")
    data = xml.buffers()[2]
    return memoryview(b"" if data is None else data)


def cell(start: str, numbers: Values, inside: Pieces, values: Values) -> Pieces:
    """Write a column of cells. Where there is no value, there is no cell."""
    pieces: Pieces = [start, numbers, *inside, "</c>"]
    if not values.null_count:
        return pieces
    whole = pc.binary_join_element_wise(*merged(pieces), "")
    return [pc.if_else(values.is_valid(), whole, "")]


def content(column: Column, values: Values, first: int) -> Pieces:
    """Write the part of each cell that stands between its reference and its end tag."""
    return CONTENTS[column.kind](column, values, first)


def text(column: Column, values: Values, first: int) -> Pieces:
    refuse_long(column, values, first)
    return ['" t="inlineStr"><is><t xml:space="preserve">', escaped(values), "</t></is>"]


def plain(_column: Column, values: Values, _first: int) -> Pieces:
    """Write texts in which nothing has to be escaped."""
    return ['" t="inlineStr"><is><t>', values, "</t></is>"]


def truth(_column: Column, values: Values, _first: int) -> Pieces:
    return ['" t="b"><v>', pc.if_else(values, "1", "0"), "</v>"]


def moment(column: Column, values: Values, first: int) -> Pieces:
    """Write times as Excel's numbers, and as text where Excel has no number for them."""
    since = pc.subtract(values.cast(pa.int64()), EXCEL_ZERO)
    whole = pc.divide(since, DAY)
    of_day = pc.subtract(since, pc.multiply(whole, DAY))
    part = pc.divide(of_day.cast(pa.float64()), float(DAY))
    days = pc.add(whole.cast(pa.float64()), part).cast(pa.string())
    within = pc.and_(pc.greater_equal(since, FIRST_MOMENT), pc.less(since, LAST_MOMENT))
    within = pc.and_(within, pc.less_equal(of_day, LAST_OF_DAY))
    if pc.all(within).as_py() is not False:
        return [f'" s="{MOMENT}"><v>', days, "</v>"]
    as_number = pc.binary_join_element_wise(f'" s="{MOMENT}"><v>', days, "</v>", "")
    as_text = pc.binary_join_element_wise(*merged(plain(column, moment_text(values), first)), "")
    return [pc.if_else(within, as_number, as_text)]


def moment_text(values: Values) -> Values:
    """Write times as PostgreSQL reads them: `0044-03-15 00:00:00.000000Z BC`. Arrow has no years before Christ, and
    takes those after 32767 for others; so it writes the same moment of a cycle near 1970, and the year is put in its
    place."""
    moments = values.cast(pa.int64())
    cycles = pc.divide(moments, CYCLE)
    near = pc.subtract(moments, pc.multiply(cycles, CYCLE)).cast(values.type)
    years = pc.add(pc.year(near), pc.multiply(cycles, CYCLE_YEARS))
    before_christ = pc.less(years, 1)
    shown = pc.if_else(before_christ, pc.subtract(1, years), years).cast(pa.string())
    year, rest = pc.utf8_lpad(shown, 4, "0"), pc.utf8_slice_codeunits(near.cast(pa.string()), 4)
    return pc.binary_join_element_wise(year, rest, pc.if_else(before_christ, " BC", ""), "")


def number(_column: Column, values: Values, _first: int) -> Pieces:
    return ['"><v>', values.cast(pa.string()), "</v>"]


# A kind that is not named here is written as text. A cell's number has 15 digits, so larger ones are texts too.
CONTENTS: dict[ColumnKind, Callable[[Column, Values, int], Pieces]] = dict.fromkeys(ColumnKind, text) | {
    ColumnKind.UUID: plain,
    ColumnKind.BOOLEAN: truth,
    ColumnKind.TIMESTAMP: moment,
    ColumnKind.SMALLINT: number,
    ColumnKind.INTEGER: number,
}


def escaped(values: Values) -> Values:
    data = values.buffers()[2]
    held = b"" if data is None else memoryview(data).tobytes()
    if b"_x" in held or b"\xef\xbf" in held or len(held.translate(None, CONTROL)) != len(held):
        unsafe = pc.fill_null(pc.match_substring_regex(values, UNSAFE), False)
        mended = [
            UNSAFE_ONE.sub(lambda found: f"_x{ord(found[0]):04X}_", each) for each in values.filter(unsafe).to_pylist()
        ]
        values = pc.replace_with_mask(values, unsafe, pa.array(mended, pa.string()))
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        values = pc.replace_substring(values, character, entity)
    return values


def refuse_long(column: Column, values: Values, first: int) -> None:
    """Raise `InvalidInput` for a text that no cell can hold. If a part of it were left out, nobody would notice."""
    suspects = pc.indices_nonzero(pc.greater(pc.binary_length(values), CELL_CHARACTERS))
    for index in suspects.to_pylist():
        characters = len(values[index].as_py().encode("utf-16-le")) // 2
        if characters > CELL_CHARACTERS:
            raise InvalidInput(
                column.name,
                f"row {first + index} of the sheet has a text of {characters:,} characters and an xlsx cell holds "
                f"{CELL_CHARACTERS:,}: leave the field out, filter such rows out, or take another format",
            )


def merged(pieces: Pieces) -> Pieces:
    """Join constants that follow each other."""
    result: Pieces = []
    for piece in pieces:
        if isinstance(piece, str) and result and isinstance(result[-1], str):
            result[-1] += piece
        else:
            result.append(piece)
    return result
