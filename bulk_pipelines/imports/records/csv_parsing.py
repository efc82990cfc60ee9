"""Parsing a block of CSV into columns of text."""

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bulk_pipelines.counted import counted
from bulk_pipelines.formats.files.csv_ends import Positions
from bulk_pipelines.imports.plan.inspect.dialect import STANDARD, Dialect
from bulk_pipelines.imports.plan.inspect.layout import BOM
from bulk_pipelines.imports.records import parsed
from bulk_pipelines.imports.records.blocks import Block
from bulk_pipelines.imports.records.parsed import Faults, Parsed, Reason

LEAST_BLOCK = 1024
LAST_IS_EMPTY = "{} fields instead of {}, and the last one is empty: see --preview"
"""What is said of a record that ends with a delimiter too many."""


def parse(block: Block, columns: tuple[str, ...], dialect: Dialect = STANDARD) -> Parsed:
    if block.oversized:
        return parsed.oversized(block, empty(columns))
    faults = Faults()
    for record, reason in parsed.undecodable(block).items():
        faults.add(record, reason)
    if block.unclosed:
        last = len(block.spans) - 1
        faults[last] = [Reason("malformed_record", detail="a quote is opened and never closed")]
    table, misfits = read(without(block, faults), columns, dialect)
    records = rows_as_records(block, table.num_rows, misfits, faults)
    if records is None:
        return Parsed(table, np.arange(table.num_rows), block.at.line + np.arange(table.num_rows))
    return Parsed(table, records, block.spans.lines[records], faults)


def without(block: Block, faults: Faults) -> bytes:
    """Return the block's bytes without the records that have faults already."""
    if not faults:
        return block.data
    pieces, position = [], 0
    for record in sorted(faults):
        pieces.append(block.data[position : block.spans.starts[record]])
        position = int(block.spans.stops[record])
    return b"".join([*pieces, block.data[position:]])


def rows_as_records(block: Block, rows: int, misfits: list[tuple[int, Reason]], faults: Faults) -> Positions | None:
    """Tell which record of the block each row is, and add the misfits to the faults. Return None in the plain case, in
    which every line is a record and every record is a row."""
    lines = block.following.line - block.at.line
    if block.ends is None and rows == lines and block.data.endswith(b"\n") and not misfits and not faults:
        return None
    left = np.delete(np.arange(len(block.spans)), sorted(faults))
    if rows + len(misfits) != len(left):
        raise AssertionError(f"{rows} rows and {len(misfits)} misfits of {len(left)} records at {block.at}")
    for number, reason in misfits:
        faults.add(int(left[number]), reason)
    return np.delete(left, [number for number, _ in misfits])


def read(data: bytes, columns: tuple[str, ...], dialect: Dialect) -> tuple[pa.Table, list[tuple[int, Reason]]]:
    """Parse the rows. Return them as a table, and separately those with a wrong number of fields: the number of each
    among the rows that are not blank, and the reason."""
    misfits: list[tuple[int, Reason]] = []
    mark = dialect.delimiter

    def note(row: pyarrow.csv.InvalidRow) -> Literal["skip"]:
        fields = f"{counted(row.actual_columns, 'field')} instead of {row.expected_columns}"
        ends = row.actual_columns == row.expected_columns + 1 and (row.text or "").rstrip("\r\n").endswith(mark)
        if ends:
            fields = LAST_IS_EMPTY.format(row.actual_columns, row.expected_columns)
        assert row.number is not None  # Arrow counts the rows if only one thread reads
        misfits.append((row.number - 1, Reason("malformed_record", detail=fields)))
        return "skip"

    if data[:1] in b"\r\n" and not data.strip(b"\r\n"):
        return empty(columns), []
    if data.startswith(BOM):
        data = BOM + data  # Arrow takes away a BOM at the beginning of whatever it reads
    if not data.endswith(b"\n") and dialect.structure(data + b"\n").endswith(b"\n"):
        data += b"\n"  # else Arrow takes an empty field at the end for a quoted one if the field before it is quoted
    nulls = dialect.nulls
    if dialect.escape is not None and nulls:
        data, mark_of_none = dialect.with_nulls_marked(data)
        nulls = (mark_of_none,)
    table = pyarrow.csv.read_csv(
        pa.BufferReader(data),  # type: ignore[arg-type]  # the stubs know only Python's own files
        pyarrow.csv.ReadOptions(
            use_threads=False, block_size=max(len(data) + 1, LEAST_BLOCK), column_names=list(columns)
        ),
        pyarrow.csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            escape_char=dialect.escape or False,
            newlines_in_values=True,
            invalid_row_handler=note,
        ),
        pyarrow.csv.ConvertOptions(
            check_utf8=False,  # `undecodable` has checked the block as a whole
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=["", *nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table.combine_chunks(), misfits


def empty(columns: tuple[str, ...]) -> pa.Table:
    return pa.schema([(name, pa.string()) for name in columns]).empty_table()
