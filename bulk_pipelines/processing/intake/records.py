"""Reading the records of a file one after the other, in constant memory: CSV (RFC 4180), NDJSON, and arrays of JSON.

A record that cannot be read is a record all the same: it becomes an item that says why, so that nothing of a file goes
unseen. What cannot be read as records at all, such as an array of JSON that is broken off, is an error of the file.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.intake.persist import Encoded
from bulk_pipelines.engine.worker.retry import storable
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.request import Format

UNREADABLE = "_unreadable"
"""The field of an item's input that says why the record could not be read. No column may have this name."""
LINE = "_line"
RECORD = "_record"
LARGEST = 1024 * 1024
"""The longest record, in characters."""
RAW_KEPT = 1_000
PIECE = 1 << 18
BOM = "\ufeff"
quoted = json.encoder.encode_basestring
SPACE = re.compile(r"[ \t\r\n]*")
FOREIGN = (("PAR1", "Parquet"), ("%PDF", "PDF"), ("\udcff\udcfe", "UTF-16"), ("\udcfe\udcff", "UTF-16"))
"""How files begin that hold no records. What is packed was unpacked or refused when it was landed."""

Row = dict[str, Any]


@dataclass
class Records:
    """The records of a file. `columns` are those of its header, or of its first record."""

    format: Format
    rows: Iterator[Row]
    columns: tuple[str, ...] = ()
    peeked: list[Row] = field(default_factory=list)

    def __iter__(self) -> Iterator[Row]:
        yield from self.peeked
        yield from self.rows


class Pieces(io.RawIOBase):
    """Bytes that come in pieces, as a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self.pieces = iter(pieces)
        self.rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.rest:
            piece = next(self.pieces, None)
            if piece is None:
                return 0
            self.rest = memoryview(piece)
        size = min(len(buffer), len(self.rest))
        buffer[:size] = self.rest[:size]
        self.rest = self.rest[size:]
        return size


def opened(pieces: Iterable[bytes], wanted: Format | None = None) -> Records:
    """Recognise the format of a file, and begin to read it."""
    # Bytes that are no UTF-8 become half surrogates, which the check of the record finds.
    text = io.TextIOWrapper(io.BufferedReader(Pieces(pieces), PIECE), "utf-8", "surrogateescape", newline="")
    head = text.read(PIECE).removeprefix(BOM)
    while head.isspace() and (more := text.read(PIECE)):
        head = head.lstrip() + more
    if not head.strip():
        raise InvalidInput("source", "the file is empty")
    for magic, said in FOREIGN:
        if head.startswith(magic):
            raise InvalidInput("source", f"the file is {said}; it must be CSV, NDJSON or a JSON array, in UTF-8")
    found = {"[": Format.JSON, "{": Format.NDJSON}.get(head.lstrip()[0], Format.CSV)
    if wanted is not None and wanted is not found:
        raise InvalidInput("format", f"the file was said to be {wanted}, but it looks like {found}")
    match found:
        case Format.CSV:
            return of_csv(lines_of(head, text))
        case Format.NDJSON:
            return peeked(Records(found, of_lines(lines_of(head, text))))
    return peeked(Records(found, of_array(head, text)))


def peeked(records: Records) -> Records:
    """Read the first record, whose fields stand for the columns."""
    first = next(records.rows, None)
    if first is None:
        raise InvalidInput("source", "the file holds no records")
    columns = () if UNREADABLE in first else tuple(first)
    return Records(records.format, records.rows, columns, [first])


def lines_of(head: str, text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines with their ends. A line that is longer than a record may be comes in parts, so that it does not
    fill the memory."""
    rest = head
    while True:
        start = 0
        while (stop := rest.find("\n", start)) >= 0:
            yield rest[start : stop + 1]
            start = stop + 1
        rest = rest[start:]
        if len(rest) > 2 * LARGEST:
            yield rest
            rest = ""
        more = text.read(PIECE)
        if not more:
            if rest:
                yield rest
            return
        rest += more


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
            yield unreadable(f"{len(values)} fields instead of {count}", line, ",".join(values))


def check_columns(columns: tuple[str, ...]) -> None:
    problems = []
    if any(not name for name in columns):
        problems.append("a column has no name")
    if len(set(columns)) < len(columns):
        problems.append("two columns have the same name")
    if any(name.startswith("_") and name in (UNREADABLE, LINE, RECORD) for name in columns):
        problems.append(f"{UNREADABLE}, {LINE} and {RECORD} are no names of columns")
    if problems:
        raise InvalidInput("source", f"the header of the CSV file is wrong: {'; '.join(problems)}")
    for name in columns:
        payload.text("source", name)


def of_lines(lines: Iterator[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield record_of(line, number)


def of_array(head: str, text: io.TextIOWrapper) -> Iterator[Row]:
    decoder = json.JSONDecoder(object_pairs_hook=once, parse_constant=refuse)
    rest = head.lstrip()[1:]
    number, first = 0, True
    while True:
        rest = (yield_from := SPACE.sub("", rest, count=1)) or text.read(PIECE)
        if not rest:
            raise InvalidInput("source", f"the JSON array is never closed: it breaks off behind element {number}")
        if not yield_from:
            continue
        if rest[0] == "]" and (first or number):
            check_behind(rest[1:], text)
            return
        if not first:
            if rest[0] != ",":
                raise InvalidInput("source", f"behind element {number} of the JSON array there is no comma")
            rest = rest[1:].lstrip() or text.read(PIECE)
        number += 1
        value, rest = element(decoder, rest, text, number)
        first = False
        yield value


def element(decoder: json.JSONDecoder, rest: str, text: io.TextIOWrapper, number: int) -> tuple[Row, str]:
    """Take one element from the front of the text, reading more as it needs."""
    while True:
        rest = rest.lstrip()
        try:
            value, stop = decoder.raw_decode(rest)
            if stop < len(rest):  # a number at the end of what was read may go on
                return checked_row(value, number), rest[stop:]
        except Doubled as error:
            raise InvalidInput("source", f"element {number} of the JSON array: {error}") from None
        except RecursionError:
            raise InvalidInput("source", f"element {number} of the JSON array is nested too deep") from None
        except ValueError:
            pass
        more = "" if len(rest) > 2 * LARGEST else text.read(max(PIECE, len(rest)))
        if not more:
            raise InvalidInput("source", f"element {number} of the JSON array cannot be read, or is never closed")
        rest += more


def check_behind(rest: str, text: io.TextIOWrapper) -> None:
    while True:
        if rest.strip():
            raise InvalidInput("source", "there is more behind the end of the JSON array")
        rest = text.read(PIECE)
        if not rest:
            return


def record_of(line: str, number: int) -> Row:
    try:
        value = json.loads(line, object_pairs_hook=once, parse_constant=refuse)
    except RecursionError:
        return unreadable("nested too deep", number, line)
    except ValueError as error:
        return unreadable(f"not JSON: {error}", number, line)
    return checked_row(value, number, line)


def checked_row(value: Any, number: int, raw: str = "") -> Row:
    if not isinstance(value, dict):
        return unreadable(f"{type(value).__name__} instead of an object", number, raw)
    if UNREADABLE in value:
        return unreadable(f"it has a field {UNREADABLE}", number, raw)
    return value


class Doubled(ValueError):
    """An object has a name twice."""


def once(pairs: list[tuple[str, Any]]) -> Row:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Doubled("a name is given twice")
    return found


def refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def unreadable(reason: str, line: int, raw: str = "") -> Row:
    kept = storable(raw[:RAW_KEPT].encode("utf-8", "backslashreplace").decode())
    return {UNREADABLE: reason, LINE: line, RECORD: kept}


def items(rows: Iterable[Row], first: int) -> Iterator[Encoded]:
    """Yield the rows as items, the first of which has this number. A row that PostgreSQL cannot hold is unreadable."""
    for number, row in enumerate(rows, first):
        encoded = flat(row)
        if encoded is None:
            try:
                encoded = payload.encode("record", row)
            except InvalidInput as error:
                encoded = payload.encode("record", unreadable(error.message, number, repr(row)))
        yield Encoded(f"{number:09}", encoded, len(encoded))


def flat(row: Row) -> str | None:
    """Return a row of texts as JSON, in a fifth of the time that it takes to encode and check any row. None when the
    row holds something else, or something that has to be looked at."""
    try:
        text = "{" + ",".join([f"{quoted(name)}:{quoted(value)}" for name, value in row.items()]) + "}"
        size = len(text) if text.isascii() else len(text.encode())
    except (TypeError, UnicodeEncodeError):
        return None
    return None if size > payload.MAX_BYTES or "\\u0000" in text else text
