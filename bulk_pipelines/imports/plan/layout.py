"""Examining a landed file: its format, its columns, where its records begin. Every error is about the whole file."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats import arrow_text, rows, sheets
from bulk_pipelines.formats.reading import STANDARD as NOTHING_TOLD
from bulk_pipelines.formats.reading import FileFormat, Reading
from bulk_pipelines.imports.plan import header as headers
from bulk_pipelines.imports.plan import naming
from bulk_pipelines.imports.plan.dialect import STANDARD, Dialect
from bulk_pipelines.imports.plan.landed_file import LandedFile
from bulk_pipelines.imports.plan.naming import FieldMapping
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

    `columns` are those that the file gives, in its order (for JSON: all that the resource has). Records begin at the
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
            columns = json_columns(source, resource, position)
            return json_layout(Format.NDJSON, resource, reading, columns, start, line)
        case Format.JSON:
            columns = json_columns(source, resource, position + 1)
            return json_layout(Format.JSON, resource, reading, columns, position + 1, 1)
        case Format.ROWS:
            raise InvalidInput("source", "the file is none of those that the program wrote itself")


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


def json_columns(source: LandedFile, resource: Resource, start: int) -> tuple[str, ...]:
    """Return the columns of a JSON file. All records have the same ones, because the table fills in a column either for
    all of them or for none: those without a default, and those that the first record names."""
    filled = {column.in_files or column.name for column in resource.columns if column.has_default}
    if not filled:
        return resource.column_names
    beginning = source.read(start, min(start + headers.LONGEST_HEADER, source.size)).decode("utf-8", "replace").lstrip()
    try:
        first, _ = json.JSONDecoder().raw_decode(beginning)
    except (ValueError, RecursionError):
        first = {}
    named = set(first) if isinstance(first, dict) else set()
    return tuple(column for name, column in resource.header.items() if name in named or name not in filled)


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
    mapping = replace(mapping, nulls=reading.nulls)
    return Layout(Format.ROWS, columns, start, first.first, header, mapping=mapping, numbered=True)


def json_layout(
    kind: Format, resource: Resource, reading: Reading, columns: tuple[str, ...], start: int, line: int
) -> Layout:
    for option in ("map", "ignore", "fields"):
        if getattr(reading, option):
            raise InvalidInput(
                option, f"is for CSV and tables: the fields of {kind} must have the names of the columns"
            )
    naming.check_told((), resource, replace(reading, no_header=False))
    mapping = FieldMapping(
        constants=reading.constants,
        expressions=reading.expressions,
        dates=reading.dates,
        decimal=reading.decimal,
        ignore_extra=reading.ignore_extra,
    )
    return Layout(kind, columns, start, line, mapping=None if mapping == FieldMapping() else mapping)
