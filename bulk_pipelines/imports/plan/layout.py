"""Examining a landed file: its format, its columns, where its records begin. Every error is about the whole file."""

import csv
import difflib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.plan.landed_file import LandedFile
from bulk_pipelines.resources.declaration import Resource

BOM = b"\xef\xbb\xbf"
HEAD = 64 * 1024
LONGEST_HEADER = 1024 * 1024
SHOWN = 10
"""How many of the columns that do not fit an error names."""
LONGEST_SHOWN = 80
FOREIGN = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "a ZIP archive or a spreadsheet",
    b"PAR1": "Parquet",
    b"%PDF": "PDF",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class Format(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"


@dataclass(frozen=True)
class Layout:
    """What was found out about a file.

    `columns` are those of the file in its order (for JSON: all that the resource has). Records begin at the byte
    `start`. The first record of a CSV or NDJSON file stands on line `first_line`; the records of a JSON array are
    numbered instead, and the first one has the number `first_line`, which is 1. Planning moves `first_line` behind the
    lines of the files before this one.
    """

    format: Format
    columns: tuple[str, ...]
    start: int
    first_line: int
    header: bytes = b""


def inspect(
    source: LandedFile, resource: Resource, told: str | None = None, *, certain: Format | None = None
) -> Layout:
    """Find out the layout of the file for this resource. `told` names the format that the file must look like. With a
    `certain` format it does not matter what the file looks like."""
    wanted = told_format(told)
    head = source.read(0, min(HEAD, source.size))
    for magic, name in FOREIGN.items():
        if head.startswith(magic):
            raise InvalidInput("source", f"the file is {name}; it must be CSV, NDJSON or a JSON array, in UTF-8")
    start = len(BOM) if head.startswith(BOM) else 0
    opening, position = first_visible(source, start)
    found = certain or {b"[": Format.JSON, b"{": Format.NDJSON}.get(opening, Format.CSV)
    if wanted and wanted is not found:
        raise InvalidInput("format", f"the file was said to be {wanted}, but it looks like {found}")
    match found:
        case Format.CSV:
            return csv_layout(source, resource, start)
        case Format.NDJSON:
            return Layout(Format.NDJSON, json_columns(source, resource, position), start, 1)
        case Format.JSON:
            return Layout(Format.JSON, json_columns(source, resource, position + 1), position + 1, 1)


def told_format(told: str | None) -> Format | None:
    try:
        return Format(told.lower()) if told else None
    except ValueError:
        raise InvalidInput("format", f"{told!r} is not one of {', '.join(Format)}") from None


def first_visible(source: LandedFile, start: int) -> tuple[bytes, int]:
    """Return the first byte that is not white space, and its position; raise `InvalidInput` if there is none."""
    for block in range(start, source.size, HEAD):
        data = source.read(block, min(block + HEAD, source.size))
        rest = data.lstrip()
        if rest:
            return rest[:1], block + len(data) - len(rest)
    raise InvalidInput("source", "the file is empty" if source.size == start else "the file holds only white space")


def json_columns(source: LandedFile, resource: Resource, start: int) -> tuple[str, ...]:
    """Return the columns of a JSON file. All records have the same ones, because the table fills in a column either for
    all of them or for none: those without a default, and those that the first record names."""
    filled = {column.in_files or column.name for column in resource.columns if column.has_default}
    if not filled:
        return resource.column_names
    beginning = source.read(start, min(start + LONGEST_HEADER, source.size)).decode("utf-8", "replace").lstrip()
    try:
        first, _ = json.JSONDecoder().raw_decode(beginning)
    except (ValueError, RecursionError):
        first = {}
    named = set(first) if isinstance(first, dict) else set()
    return tuple(column for name, column in resource.header.items() if name in named or name not in filled)


def csv_layout(source: LandedFile, resource: Resource, start: int) -> Layout:
    position, line = start, 1
    while True:
        text, stop = header_line(source, position)
        if text.strip():
            break
        position, line = stop, line + text.count("\n") + (text.endswith("\r"))
    try:
        names = [name.strip() for name in next(csv.reader([text], strict=True))]
    except csv.Error as error:
        raise InvalidInput("source", f"the header of the CSV file cannot be read: {error}") from None
    check_columns(names, resource, text)
    first_line = line + text.count("\n") + (text.count("\r") - text.count("\r\n"))
    return Layout(
        Format.CSV, tuple(resource.header[name] for name in names), stop, first_line, text.rstrip("\r\n").encode()
    )


def header_line(source: LandedFile, start: int) -> tuple[str, int]:
    """Return the line of the file that begins at this byte, with its end, and the position where the next line begins.
    A quoted name may hold a newline."""
    data = source.read(start, min(start + LONGEST_HEADER, source.size))
    quoted = False
    for position, byte in enumerate(data):
        if byte == 0x22:
            quoted = not quoted
        elif byte in b"\r\n" and not quoted:
            stop = position + 1 + (data[position : position + 2] == b"\r\n")
            break
    else:
        if len(data) == LONGEST_HEADER:
            raise InvalidInput("source", f"the first line has more than {LONGEST_HEADER} bytes: this is no CSV header")
        stop = len(data)
    try:
        return data[:stop].decode(), start + stop
    except UnicodeDecodeError:
        raise InvalidInput("source", "the header of the CSV file is not UTF-8") from None


def check_columns(names: list[str], resource: Resource, text: str) -> None:
    problems = []
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if doubled:
        problems.append(f"named twice: {first_of(doubled, lambda name: name[:LONGEST_SHOWN])}")
    known = tuple(resource.header)
    unknown = [name for name in dict.fromkeys(names) if name not in known]
    if unknown:
        problems.append(f"unknown: {first_of(unknown, lambda name: with_hint(name, known))}")
    missing = [
        name
        for name, column in resource.header.items()
        if resource.column(column).needed_in_files and name not in names
    ]
    if missing:
        problems.append(f"missing: {', '.join(missing)}")
    if problems:
        mark = next((mark for mark in "\t;|" if mark in text and len(names) == 1), None)
        hint = f"; are the fields separated by {mark!r} instead of commas?" if mark else ""
        raise InvalidInput("source", f"the columns of the file do not fit {resource.name}: {'; '.join(problems)}{hint}")


def first_of(names: list[str], said: Callable[[str], str]) -> str:
    """List only the first few names, and how many more there are: a file of another kind may have thousands."""
    rest = len(names) - SHOWN
    return ", ".join(said(name) for name in names[:SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def with_hint(name: str, known: tuple[str, ...]) -> str:
    name = name[:LONGEST_SHOWN]
    shown = json.dumps(name, ensure_ascii=False)
    close = difflib.get_close_matches(name.lower(), known, 1)
    return f"{shown} (meant {close[0]}?)" if close else shown
