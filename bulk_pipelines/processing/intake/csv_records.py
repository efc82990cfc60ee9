"""Records of CSV in any dialect. It is the one of RFC 4180 if nothing else was told or recognised."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

from bulk_pipelines.counted import counted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.intake.rows import LARGEST, Records, Row, Told, check_columns, unreadable
from bulk_pipelines.processing.request import Format

DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Dialect:
    delimiter: str
    quote: str | None
    escape: str | None

    def reader(self, lines: Iterator[str]) -> Any:
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote,
            escapechar=self.escape,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            strict=True,
        )


class CsvLines:
    """The lines of a CSV file. A record in quotes can go on for ever, so one that is too long is broken off."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines
        self.size = 0
        """How many characters of the present record were read."""
        self.record: list[str] = []
        """The lines of the present record."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if self.size > 2 * LARGEST:  # doubled quotes can make a record twice as long
            raise csv.Error(f"the record is longer than {LARGEST:,} characters")
        line = next(self.lines)
        self.size += len(line)
        self.record.append(line)
        return line

    def begin(self) -> None:
        self.size = 0
        self.record.clear()


def of_csv(given: Iterator[str], told: Told, skipped: int = 0) -> Records:
    """Begin to read a file. `skipped` lines before this were left out, and count in the numbers of lines."""
    csv.field_size_limit(LARGEST)
    # A carriage return alone is no end of a line for PostgreSQL's COPY either; within quotes it stays.
    first, dialect, seen = first_line(given, told)
    no_header = told.reading.no_header
    columns = told.fields_of(first) if no_header else tuple(name.strip() for name in first)
    check_columns(columns)
    lines = CsvLines(chain(seen, given))
    reader = dialect.reader(lines)
    if not no_header:
        next(names for names in reader if names)
    return Records(Format.CSV, csv_rows(reader, lines, columns, dialect, told, skipped), columns)


def first_line(given: Iterator[str], told: Told) -> tuple[list[str], Dialect, list[str]]:
    """Return the values of the first line, its dialect, and the lines that were read to find that out. The delimiter is
    the one with which most known names are found; of several that do equally well, the first one counts."""
    reading = told.reading
    quote = '"' if reading.quote is None else reading.quote or None
    tried = reading.delimiter or "".join(mark for mark in DELIMITERS if mark != quote)
    seen: list[str] = []

    def noted() -> Iterator[str]:
        for line in given:
            seen.append(line)
            yield line

    found: dict[Dialect, list[str]] = {}
    wrong = ""
    for dialect in (Dialect(mark, quote, reading.escape) for mark in tried):
        try:
            reader = dialect.reader(CsvLines(chain(tuple(seen), noted())))
            found[dialect] = next((values for values in reader if values), [])
        except csv.Error as error:
            wrong = wrong or str(error)
    if not found:
        raise InvalidInput("source", f"the header of the CSV file cannot be read: {wrong}")
    best = max(found, key=lambda each: told.fit(found[each]))
    return found[best], best, seen


def csv_rows(
    reader: Any, lines: CsvLines, columns: tuple[str, ...], dialect: Dialect, told: Told, skipped: int
) -> Iterator[Row]:
    count, nulls = len(columns), frozenset(told.reading.nulls)
    while True:
        line = reader.line_num + 1 + skipped
        lines.begin()
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield unreadable(f"lines {line} to {reader.line_num + skipped}: {error}", line)
            continue
        if len(values) == count:
            if nulls and (dialect.escape or not nulls.isdisjoint(values)):
                spelt = as_spelt("".join(lines.record), dialect)
                values = [None if text in nulls else value for value, text in zip(values, spelt, strict=True)]
            yield dict(zip(columns, values, strict=True))
        elif values:
            yield unreadable(
                f"{counted(len(values), 'field')} instead of {count}", line, dialect.delimiter.join(values)
            )


def as_spelt(record: str, dialect: Dialect) -> list[str | None]:
    """Return each field of a record as it stands in the file; None for one that is quoted, because a quoted spelling of
    no value is a text. An escape character means nothing yet: MySQL writes \\N, and not N."""
    found: list[str | None] = []
    quoted, inside, begins, place, start = False, False, True, 0, 0
    while place < len(record):
        mark = record[place]
        if mark == dialect.escape:
            place += 1
        elif inside:
            if mark == dialect.quote and record[place + 1 : place + 2] == mark:
                place += 1
            elif mark == dialect.quote:
                inside = False
        elif mark == dialect.quote and begins:
            quoted = inside = True
        elif mark in "\r\n":
            break
        elif mark == dialect.delimiter:
            found.append(None if quoted else record[start:place])
            quoted, start = False, place + 1
        begins = mark == dialect.delimiter and not inside
        place += 1
    return [*found, None if quoted else record[start:place]]
