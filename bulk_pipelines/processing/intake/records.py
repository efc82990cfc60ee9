"""The records of CSV, NDJSON and JSON arrays are read one after the other, in constant memory.

A record that cannot be read still becomes an item, which says why, so that nothing of a file goes unseen. A file that
cannot be read as records at all, such as a JSON array that breaks off, is refused.
"""

import io
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.intake.persist import Encoded
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files import encodings
from bulk_pipelines.processing.intake.csv_records import of_csv
from bulk_pipelines.processing.intake.json_records import PIECE, of_array, of_lines
from bulk_pipelines.processing.intake.rows import LARGEST, NOTHING_TOLD, UNREADABLE, Records, Row, Told, unreadable
from bulk_pipelines.processing.request import Format

BOM = "\ufeff"
HEAD = 64 * 1024
"""The encoding is recognised by so many bytes."""
quoted = json.encoder.encode_basestring
FOREIGN = (
    ("PAR1", "Parquet"),
    ("PK\x03\x04", "a zip archive or a workbook"),
    ("%PDF", "PDF"),
)
"""How files begin that hold no records. What is packed was unpacked or refused when it was landed."""


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


def opened(pieces: Iterable[bytes], told: Told = NOTHING_TOLD) -> Records:
    """Recognise the format of a file, and begin to read it."""
    # Bytes that are no UTF-8 become half surrogates, which the check of the record finds.
    raw = io.BufferedReader(Pieces(in_utf8(iter(pieces), told)), PIECE)
    text = io.TextIOWrapper(raw, "utf-8", "surrogateescape", newline="")
    head = behind_lines(text.read(PIECE).removeprefix(BOM), text, told.reading.skip_lines)
    while head.isspace() and (more := text.read(PIECE)):
        head = head.lstrip() + more
    if not head.strip():
        raise InvalidInput("source", "the file is empty")
    for magic, said in FOREIGN:
        if head.startswith(magic):
            raise InvalidInput("source", f"the file is {said}; it must be CSV, NDJSON or a JSON array, in UTF-8")
    found = {"[": Format.JSON, "{": Format.NDJSON}.get(head.lstrip()[0], Format.CSV)
    if found is not Format.CSV and told.reading.fields:
        raise InvalidInput("fields", "names the fields of a file without a header, and records of JSON name their own")
    check_format(told, found)
    match found:
        case Format.CSV:
            return of_csv(lines_of(head, text), told, told.reading.skip_lines)
        case Format.NDJSON:
            rows = of_lines(lines_of(head, text), told.reading.skip_lines)
        case _:
            rows = of_array(head, text)
    nulls = frozenset(told.reading.nulls)
    return peeked(Records(found, (without(row, nulls) for row in rows) if nulls else rows))


def without(row: Row, nulls: frozenset[str]) -> Row:
    """Return a record of JSON without the values that are spelt as none."""
    return {
        name: None if (value if isinstance(value, str) else json.dumps(value)) in nulls else value
        for name, value in row.items()
    }


def in_utf8(pieces: Iterator[bytes], told: Told) -> Iterator[bytes]:
    """Return the pieces of a text in UTF-8, whatever it is written in."""
    first: list[bytes] = []
    for piece in pieces:
        first.append(piece)
        if sum(map(len, first)) >= HEAD:
            break
    every = chain(first, pieces)
    encoding = encodings.found(b"".join(first)[:HEAD], told.reading.encoding)
    return every if encoding is None else encodings.transcoded(every, encoding)


def behind_lines(head: str, text: io.TextIOWrapper, count: int) -> str:
    """Return what stands behind so many lines, whatever is in them."""
    for _ in range(count):
        while (end := head.find("\n")) < 0:
            head = text.read(PIECE)
            if not head:
                raise InvalidInput("skip_lines", f"the file has no more than {count} lines")
        head = head[end + 1 :]
    return head


def check_format(told: Told, found: Format) -> None:
    """Refuse a file that is not what it was said to be, and options that have no meaning for it."""
    if told.format is not None and told.format is not found:
        raise InvalidInput("format", f"the file was said to be {told.format}, but it looks like {found}")
    if not told.for_others:
        told.reading.refuse_idle({found})


def peeked(records: Records) -> Records:
    """Read the first record, whose fields stand for the columns."""
    first = next(records.rows, None)
    if first is None:
        raise InvalidInput("source", "the file holds no records")
    columns = records.columns or (() if UNREADABLE in first else tuple(first))
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
