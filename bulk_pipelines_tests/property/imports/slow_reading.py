"""The records of a file, read byte by byte in the most obvious way: what the quick reader is compared with."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Resource

BOM = "\ufeff".encode()
SPACE = b" \t\r\n"
LINE_END = re.compile(rb"\r\n|\r|\n")

Code = tuple[str, str | None]
"""Why a record is rejected, and the field at fault."""


class NoGood(Exception):
    """The file as a whole cannot be imported."""


class Number:
    """A number of JSON: no column takes one."""


@dataclass
class Record:
    """`line` counts in its own file. What could not be read has only `codes`."""

    line: int
    raw: bytes
    values: dict[str, Any] = field(default_factory=dict)
    codes: list[Code] = field(default_factory=list)
    unreadable: bool = False


@dataclass(frozen=True)
class File:
    columns: tuple[str, ...]
    records: list[Record]


def read(data: bytes, resource: Resource) -> File:
    start = len(BOM) if data.startswith(BOM) else 0
    visible = data[start:].lstrip()
    if not visible:
        raise NoGood("empty")
    if visible.startswith(b"["):
        return File(resource.column_names, array(data, data.index(b"[", start) + 1, resource))
    if visible.startswith(b"{"):
        return File(resource.column_names, lines(data[start:], resource))
    return csv(data[start:], resource)


@dataclass
class Row:
    start: int
    stop: int
    fields: list[bytes | None]
    unclosed: bool


def csv(data: bytes, resource: Resource) -> File:
    found = [row for row in csv_rows(data) if data[row.start : row.stop].strip(b"\r\n")]
    header = [(name or b"").decode().strip() for name in found[0].fields]
    unknown = set(header) - set(resource.column_names)
    missing = {column.name for column in resource.columns if column.required} - set(header)
    if unknown or missing or len(set(header)) < len(header) or found[0].unclosed:
        raise NoGood("header")
    if len(found) == 1:
        raise NoGood("no records")
    return File(tuple(header), [csv_record(data, row, header) for row in found[1:]])


def csv_record(data: bytes, row: Row, header: list[str]) -> Record:
    raw = data[row.start : row.stop].removesuffix(b"\n").removesuffix(b"\r")
    record = Record(1 + len(LINE_END.findall(data[: row.start])), raw)
    try:
        values = [None if each is None else each.decode() for each in row.fields]
        data[row.start : row.stop].decode()
    except UnicodeDecodeError:
        values = []
        record.codes = [("invalid_encoding", None)]
    if row.unclosed or (not record.codes and len(values) != len(header)):
        record.codes = [("malformed_record", None)]
    record.unreadable = bool(record.codes)
    record.values = {} if record.unreadable else dict(zip(header, values, strict=True))
    return record


def csv_rows(data: bytes) -> list[Row]:
    """A quote opens a field only at its very beginning; doubled inside, it is a character. Any end of a line ends a
    record, outside of quotes. A field with nothing in it, not even quotes, is None."""
    rows: list[Row] = []
    start = position = 0
    fields: list[bytes | None] = []
    text, quoted, fresh, had_quotes = b"", False, True, False
    while position < len(data):
        byte = data[position : position + 1]
        position += 1
        if quoted and byte == b'"' and data[position : position + 1] == b'"':
            text, position = text + byte, position + 1
        elif quoted and byte == b'"':
            quoted = False
        elif quoted:
            text += byte
        elif byte == b'"' and fresh:
            quoted = had_quotes = True
            fresh = False
        elif byte in b",\r\n":
            fields.append(text if text or had_quotes else None)
            text, fresh, had_quotes = b"", True, False
            if byte != b",":
                position += data[position - 1 : position + 1] == b"\r\n"
                rows.append(Row(start, position, fields, unclosed=False))
                start, fields = position, []
        else:
            text, fresh = text + byte, False
    if start < len(data):
        rows.append(Row(start, len(data), [*fields, text if text or had_quotes else None], unclosed=quoted))
    return rows


def lines(data: bytes, resource: Resource) -> list[Record]:
    numbered = enumerate(data.split(b"\n"), 1)
    return [json_record(number, line.strip(SPACE), resource) for number, line in numbered if line.strip(SPACE)]


def array(data: bytes, start: int, resource: Resource) -> list[Record]:
    elements: list[bytes] = []
    depth, in_string, position = 0, False, start
    while True:
        byte = data[position : position + 1]
        if not byte:
            raise NoGood("never closed")
        if in_string and byte == b"\\":
            position += 1
        elif byte == b'"':
            in_string = not in_string
        elif not in_string and byte in b"[{":
            depth += 1
        elif not in_string and byte in b"]}" and depth:
            depth -= 1
        elif not in_string and not depth and byte in b",]}":
            elements.append(data[start:position].strip(SPACE))
            start = position + 1
            if byte != b",":
                break
        position += 1
    if data[position + 1 :].strip(SPACE) or not elements[-1]:
        raise NoGood("more behind the end, or nothing before it")
    return [json_record(number, raw, resource) for number, raw in enumerate(elements, 1)]


def json_record(line: int, raw: bytes, resource: Resource) -> Record:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return Record(line, raw, codes=[("invalid_encoding", None)], unreadable=True)
    try:
        found = json.loads(
            text,
            parse_int=lambda _: Number(),
            parse_float=lambda _: Number(),
            parse_constant=refused,
            object_pairs_hook=once,
        )
    except ValueError:
        found = None
    if not isinstance(found, dict) or any("\ud800" <= letter <= "\udfff" for letter in letters(found)):
        return Record(line, raw, codes=[("malformed_record", None)], unreadable=True)
    record = Record(line, raw)
    for name, value in found.items():
        if name not in resource.column_names:
            record.codes.append(("unknown_field", name))
        elif value is None or fits(value, resource.column(name).kind):
            record.values[name] = value
        else:
            record.codes.append((resource.column(name).code, name))
    return record


def fits(value: object, kind: ColumnKind) -> bool:
    if kind is ColumnKind.BOOLEAN:
        return isinstance(value, bool)
    if kind is ColumnKind.TEXT_LIST:
        return isinstance(value, list) and all(each is None or isinstance(each, str) for each in value)
    return isinstance(value, str)


def letters(value: object) -> str:
    if isinstance(value, dict):
        return "".join(letters(name) + letters(each) for name, each in value.items())
    if isinstance(value, list):
        return "".join(letters(each) for each in value)
    return value if isinstance(value, str) else ""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def refused(name: str) -> None:
    raise ValueError(name)
