"""Records of CSV (RFC 4180)."""

import csv
from collections.abc import Iterator
from typing import Any, Self

from bulk_pipelines.counted import counted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.intake.rows import LARGEST, Records, Row, check_columns, unreadable
from bulk_pipelines.processing.request import Format


class CsvLines:
    """The lines of a CSV file. A record ends where its quotes say, so one that never ends is broken off."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines
        self.size = 0
        """How many characters of the present record were read."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if self.size > 2 * LARGEST:  # with its quotes doubled, a record may be so long
            raise csv.Error(f"the record is longer than {LARGEST:,} characters")
        line = next(self.lines)
        self.size += len(line)
        return line


def of_csv(given: Iterator[str]) -> Records:
    csv.field_size_limit(LARGEST)
    # A carriage return alone is no end of a line for PostgreSQL's COPY either; within quotes it stays.
    lines = CsvLines(given)
    reader = csv.reader(lines, strict=True)
    try:
        header = next((names for names in reader if names), [])
    except csv.Error as error:
        raise InvalidInput("source", f"the header of the CSV file cannot be read: {error}") from None
    columns = tuple(name.strip() for name in header)
    check_columns(columns)
    return Records(Format.CSV, csv_rows(reader, lines, columns), columns)


def csv_rows(reader: Any, lines: CsvLines, columns: tuple[str, ...]) -> Iterator[Row]:
    count = len(columns)
    while True:
        line = reader.line_num + 1
        lines.size = 0
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield unreadable(f"lines {line} to {reader.line_num}: {error}", line)
            continue
        if len(values) == count:
            yield dict(zip(columns, values, strict=True))
        elif values:
            yield unreadable(f"{counted(len(values), 'field')} instead of {count}", line, ",".join(values))
