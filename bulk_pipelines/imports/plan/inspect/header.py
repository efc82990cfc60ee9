"""The header of a CSV file: where it stands, how it is written, and which fields it names. What was not told is
recognised by it: the right delimiter is the one with which the names fit the columns."""

import csv
from dataclasses import dataclass

from bulk_pipelines.counted import counted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files.fields import alike
from bulk_pipelines.formats.files.unfit import Unfit
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.formats.sheets import Sheet
from bulk_pipelines.imports.plan.inspect import naming
from bulk_pipelines.imports.plan.inspect.dialect import Dialect
from bulk_pipelines.imports.plan.land.landed_file import LandedFile
from bulk_pipelines.resources.declaration import Resource

LONGEST_HEADER = 1024 * 1024
DELIMITERS = ",;\t|"
PREAMBLE = 30
"""A header is looked for in so many lines, to say how many to skip."""


@dataclass(frozen=True)
class Header:
    """`fields` are the names that the file, or somebody, gives to its fields. Records begin at the byte `start`, on the
    line `first_line`."""

    fields: tuple[str, ...]
    dialect: Dialect
    start: int
    first_line: int
    header: bytes


def find(source: LandedFile, resource: Resource, reading: Reading, start: int, line: int) -> Header:
    """Find the header behind the lines that are skipped, or in a file without one the number of its fields."""
    found, begin, line_of_header = read_header(source, resource, reading, start, line)
    if reading.quote is None and not reading.no_header:
        refuse_single_quotes(found)
    if not reading.no_header and naming.fitting(found.fields, resource) < len(found.fields):
        refuse_preamble(source, resource, reading, begin, line_of_header, found)
    if not reading.no_header:
        return found
    fields = reading.fields or tuple(f"field {number}" for number in range(1, len(found.fields) + 1))
    naming.check_told(found.fields, resource, reading)
    return Header(fields, found.dialect, start, line, b"")


def read_header(
    source: LandedFile, resource: Resource, reading: Reading, start: int, line: int
) -> tuple[Header, int, int]:
    """Read the first line that is not blank; return it with the position where it begins, and its number."""
    position = start
    quote = '"' if reading.quote is None else reading.quote
    plain = Dialect(reading.delimiter or ",", quote or None, reading.escape, reading.nulls)
    while True:
        text, stop = header_line(source, position, plain)
        if text.strip():
            break
        position, line = stop, line + line_count(text)
    tried = [plain] if reading.delimiter else [replace_mark(plain, mark) for mark in DELIMITERS if mark != quote]
    read = {dialect: names_of(text, dialect) for dialect in tried}
    dialect = max(read, key=lambda each: fit(read[each], resource, reading))
    fields = read[dialect]
    if fields is None:
        raise InvalidInput("source", "the header of the CSV file cannot be read: a quote is wrong, see --quote")
    found = Header(fields, dialect, stop, line + line_count(text), text.rstrip("\r\n").encode())
    return found, position, line


def replace_mark(dialect: Dialect, mark: str) -> Dialect:
    return Dialect(mark, dialect.quote, dialect.escape, dialect.nulls)


def fit(fields: tuple[str, ...] | None, resource: Resource, reading: Reading) -> tuple[int, int]:
    """Tell how well the fields fit: by their names, or by their number if there is no header. Of delimiters that fit
    alike, the first one counts."""
    if fields is None:
        return -1, 0
    if reading.no_header:
        wanted = len(reading.fields) or len(resource.columns)
        return int(len(fields) == wanted), len(fields)
    told = {alike(field) for _, field in reading.map} | {alike(field) for field in reading.ignore}
    return naming.fitting(fields, resource) + len(told & {alike(field) for field in fields}), len(fields)


def names_of(text: str, dialect: Dialect) -> tuple[str, ...] | None:
    reader = csv.reader(
        [text],
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        escapechar=dialect.escape,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        strict=True,
    )
    try:
        return tuple(name.strip() for name in next(reader))
    except csv.Error:
        return None


def refuse_single_quotes(found: Header) -> None:
    """Raise `Unfit` if the file is quoted otherwise than is usual: else its quotes would be loaded with the texts."""
    if all(len(name) > 2 and name[0] == name[-1] == "'" for name in found.fields):
        raise Unfit("source", 'all names of the header stand in single quotes: say --quote "\'"', {"quote": "'"})


def refuse_preamble(
    source: LandedFile, resource: Resource, reading: Reading, position: int, line: int, found: Header
) -> None:
    """Raise `Unfit` if one of the next lines looks like the header, and this one does not."""
    best = naming.fitting(found.fields, resource)
    needed = naming.needed(resource)
    if needed <= {alike(field) for field in found.fields}:
        return
    for skipped in range(1, PREAMBLE):
        try:
            position = behind_lines(source, position, 1)
        except InvalidInput:
            return
        if position >= source.size:
            return
        try:
            later, _, number = read_header(source, resource, reading, position, line + skipped)
        except InvalidInput:
            continue
        names = {alike(field) for field in later.fields}
        if naming.fitting(later.fields, resource) > best and needed <= names:
            lines = number - 1
            raise Unfit(
                "source",
                f"line {lines + 1} looks like the header of {resource.name}: --skip-lines {lines} leaves out what"
                " stands before it",
                {"skip_lines": lines},
            )


def refuse_rows_before(sheet: Sheet, resource: Resource, reading: Reading) -> None:
    """Raise `Unfit` if a later row of a sheet looks like the header, and the first one does not."""
    needed = naming.needed(resource)
    if reading.no_header or needed <= {alike(field) for field in sheet.fields}:
        return
    for number, cells in sheet.first:
        if naming.fitting(cells, resource) > naming.fitting(sheet.fields, resource) and needed <= {
            alike(cell) for cell in cells
        }:
            raise Unfit(
                "source",
                f"row {number} of the sheet {sheet.name} looks like the header of {resource.name}:"
                f" --skip-lines {number - 1} leaves out what stands before it",
                {"skip_lines": number - 1},
            )


def behind_lines(source: LandedFile, start: int, count: int) -> int:
    """Return the position behind so many lines, whatever is in them."""
    position = start
    for _ in range(count):
        data = source.read(position, min(position + LONGEST_HEADER, source.size))
        ends = [place for place in (data.find(b"\n"), data.find(b"\r")) if place >= 0]
        if not ends:
            raise InvalidInput("skip_lines", f"the file has no more than {counted(count, 'line')}")
        end = min(ends)
        position += end + 1 + (data[end : end + 2] == b"\r\n")
    return position


def line_count(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def header_line(source: LandedFile, start: int, dialect: Dialect) -> tuple[str, int]:
    """Return the line of the file that begins at this byte, with its end, and the position where the next line begins.
    A quoted name may hold a newline."""
    data = source.read(start, min(start + LONGEST_HEADER, source.size))
    quote = ord(dialect.quote) if dialect.quote else -1
    quoted = False
    for position, byte in enumerate(data):
        if byte == quote:
            quoted = not quoted
        elif byte in b"\r\n" and not quoted:
            stop = position + 1 + (data[position : position + 2] == b"\r\n")
            break
    else:
        if len(data) == LONGEST_HEADER:
            raise InvalidInput("source", f"the first line has more than {LONGEST_HEADER} bytes: this is no CSV header")
        stop = len(data)
    if 0 in data[:stop]:
        raise InvalidInput(
            "source",
            "the first line holds NUL characters, so this is no CSV, or in an encoding that must be told, such as"
            " --encoding utf-16-le",
        )
    try:
        return data[:stop].decode(), start + stop
    except UnicodeDecodeError:
        raise Unfit(
            "source",
            "the header of the CSV file is not UTF-8: say --encoding cp1252 (Western Windows), latin-1, utf-16, …",
            {"encoding": "cp1252"},
        ) from None
