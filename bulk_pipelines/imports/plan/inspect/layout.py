"""Examining a landed file: its format, its columns, where its records begin. Every error is about the whole file."""

from dataclasses import dataclass, replace
from enum import StrEnum

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats import rows, sheets
from bulk_pipelines.formats.reading import STANDARD as NOTHING_TOLD
from bulk_pipelines.formats.reading import TYPED, XLSX, FileFormat, Reading
from bulk_pipelines.formats.typed import arrow_text
from bulk_pipelines.imports.plan.inspect import header as headers
from bulk_pipelines.imports.plan.inspect import json_fields, naming
from bulk_pipelines.imports.plan.inspect.dialect import STANDARD, Dialect
from bulk_pipelines.imports.plan.inspect.naming import FieldMapping
from bulk_pipelines.imports.plan.land.landed_file import LandedFile
from bulk_pipelines.resources.declaration import Resource

BOM = b"\xef\xbb\xbf"
HEAD = 64 * 1024
FOREIGN = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"%PDF": "PDF",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls), or one with a password: save it as .xlsx or CSV",
}


class Format(StrEnum):
    """The form in which the records of a landed file stand."""

    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"
    ROWS = "rows"
    """Batches of Arrow: the form in which tables are landed, of Parquet, Arrow and XLSX files."""


@dataclass(frozen=True)
class Layout:
    """What was found out about a file.

    `columns` are those that the file gives, in its order (for JSON: in that of the resource). Records begin at the
    byte `start`. The first record of a CSV or NDJSON file stands on line `first_line`; the records of a JSON array are
    numbered instead, and the first one has the number `first_line`, which is 1. Planning moves `first_line` behind the
    lines of the files before this one. `mapping` is None if the fields of the file are its columns, as they are.
    """

    format: Format
    columns: tuple[str, ...]
    start: int
    first_line: int
    header: bytes = b""
    dialect: Dialect = STANDARD
    mapping: FieldMapping | None = None
    numbered: bool = False
    """Whether the records of a CSV file count as one line each, whatever is in them: they were rows of a table."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of a CSV file, by which it is parsed."""
        return self.columns if self.mapping is None else self.mapping.fields

    def written_like(self, other: "Layout") -> bool:
        """Tell whether records of both layouts can stand in one file."""
        mine = (self.format, self.header, self.dialect, self.mapping)
        return mine == (other.format, other.header, other.dialect, other.mapping)

    @property
    def as_text(self) -> "Layout":
        """The layout of files to which records are written as they stood: rows are written as CSV."""
        if self.format is not Format.ROWS or self.mapping is None:
            return self
        return replace(self, format=Format.CSV, dialect=Dialect(nulls=self.mapping.nulls), numbered=False)


def inspect(
    source: LandedFile,
    resource: Resource,
    told: str | None = None,
    reading: Reading = NOTHING_TOLD,
    *,
    certain: Format | Layout | None = None,
) -> Layout:
    """Find out the layout of the file for this resource. `told` names the format that the file must look like, and
    `reading` has what else was told. With a `certain` format it does not matter what the file looks like; with a
    certain layout, only its beginning is found."""
    head = source.read(0, min(HEAD, source.size))
    for magic, name in FOREIGN.items():
        if head.startswith(magic):
            raise InvalidInput("source", f"the file is {name}; it must be CSV, NDJSON or a JSON array, in UTF-8")
    if rows.is_rows(head):
        return rows_layout(source, resource, reading)  # what was told was compared when the table became rows
    wanted = told_format(told)
    start = len(BOM) if head.startswith(BOM) else 0
    start, line = headers.behind_lines(source, start, reading.skip_lines), 1 + reading.skip_lines
    opening, position = first_visible(source, start)
    if isinstance(certain, Layout):
        return begun(source, certain, start, position)
    found = certain or {b"[": Format.JSON, b"{": Format.NDJSON}.get(opening, Format.CSV)
    if wanted and wanted is not found:
        raise InvalidInput("format", f"the file was said to be {wanted}, but it looks like {found}")
    match found:
        case Format.CSV:
            return csv_layout(source, resource, reading, start, line)
        case Format.NDJSON:
            return json_layout(source, Format.NDJSON, resource, reading, position, start, line)
        case Format.JSON:
            return json_layout(source, Format.JSON, resource, reading, position + 1, position + 1, 1)
        case Format.ROWS:
            raise InvalidInput("source", "the file is none of those that the program wrote itself")


def formats_of(source: LandedFile, found: Layout) -> frozenset[FileFormat]:
    """Return the formats of which the file can be: rows tell only whether they were a sheet."""
    if found.format is not Format.ROWS:
        return frozenset({FileFormat(found.format)})
    return TYPED if sheets.told(rows.opened(source)[0]) is None else XLSX


def told_format(told: str | None) -> Format | None:
    try:
        return Format(FileFormat(told.lower())) if told else None
    except ValueError:
        if told in set(FileFormat):
            raise InvalidInput("format", f"the file was said to be {told}, and is not") from None
        raise InvalidInput("format", f"{told!r} is not one of {', '.join(FileFormat)}") from None


def first_visible(source: LandedFile, start: int) -> tuple[bytes, int]:
    """Return the first byte that is not white space, and its position; raise `InvalidInput` if there is none."""
    for block in range(start, source.size, HEAD):
        data = source.read(block, min(block + HEAD, source.size))
        rest = data.lstrip()
        if rest:
            return rest[:1], block + len(data) - len(rest)
    raise InvalidInput("source", "the file is empty" if source.size == start else "the file holds only white space")


def begun(source: LandedFile, layout: Layout, start: int, position: int) -> Layout:
    """Return the layout with the place where the records of this file begin. One line stands before them."""
    if layout.format is Format.JSON:
        return replace(layout, start=position + 1, first_line=1)
    if layout.format is Format.NDJSON:
        return replace(layout, start=start, first_line=1)
    text, stop = headers.header_line(source, start, layout.dialect)
    return replace(layout, start=stop, first_line=1 + headers.line_count(text))


def csv_layout(source: LandedFile, resource: Resource, reading: Reading, start: int, line: int) -> Layout:
    found = headers.find(source, resource, reading, start, line)
    mapping = naming.mapping(found.fields, resource, reading)
    columns = tuple(dict.fromkeys([*(name for name in mapping.columns if name), *mapping.made]))
    plain = columns == mapping.fields and not (mapping.made or mapping.dates or mapping.decimal)
    return Layout(
        Format.CSV,
        columns,
        found.start,
        found.first_line,
        found.header,
        found.dialect,
        None if plain else mapping,
    )


def rows_layout(source: LandedFile, resource: Resource, reading: Reading) -> Layout:
    """Return the layout of a file of rows. Its fields are known, and so is where a sheet has its header."""
    schema, start = rows.opened(source)
    sheet = sheets.told(schema)
    if sheet is None:
        fields, reading = tuple(schema.names[len(rows.OWN) :]), replace(reading, no_header=False, fields=())
    else:
        fields = sheet.fields
        headers.refuse_rows_before(sheet, resource, reading)
    mapping = naming.mapping(fields, resource, reading)
    columns = tuple(dict.fromkeys([*(name for name in mapping.columns if name), *mapping.made]))
    first = next(rows.places(source, start), None)
    if first is None:
        raise InvalidInput("source", "the table holds no records")
    header = arrow_text.header_line(list(fields))
    numbered = enumerate(mapping.columns) if reading.decimal else ()
    commas = tuple(place for place, column in numbered if column and resource.column(column).kind.is_number)
    mapping = replace(mapping, nulls=reading.nulls, commas=commas)
    return Layout(Format.ROWS, columns, start, first.first, header, mapping=mapping, numbered=True)


def json_layout(
    source: LandedFile, kind: Format, resource: Resource, reading: Reading, first: int, start: int, line: int
) -> Layout:
    """Return the layout of a file of JSON objects, the first of which begins at the byte `first`."""
    columns, mapping = json_fields.mapping(json_fields.first_fields(source, first), resource, reading)
    return Layout(kind, columns, start, line, mapping=mapping)
