"""Judging one JSON record that Arrow could not read into columns: what is wrong with it, and what is left of it."""

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.formats.json_objects import pairs_once, refuse_constant
from bulk_pipelines.imports.records.parsed import Reason, shown
from bulk_pipelines.resources.declaration import Resource

DEEPEST = 64


class Number(str):
    """A number as it was written, of any size. It is a `str` only in Python: it does not count as text."""

    __slots__ = ()


@dataclass(frozen=True)
class Wanted:
    """What the records of a file must be. Fields that the resource has no column for are ignored, or refused."""

    resource: Resource
    schema: pa.Schema
    ignored: frozenset[str] = frozenset()
    ignore_extra: bool = False
    has_commas: bool = False
    """Whether the numbers of texts have a decimal comma."""
    nulls: tuple[str, ...] = ()
    """The spellings of no value."""


def judge(raw: bytes, wanted: Wanted) -> tuple[bytes | None, list[Reason]]:
    """Return the record as a line that can be read into columns, and the reasons against it. In the line, null stands
    for each value of a wrong kind. The line is None if the record is not a JSON object."""
    try:
        record = loaded(raw)
    except ValueError as error:
        return None, [Reason("malformed_record", detail=shown(str(error)))]
    if not isinstance(record, dict):
        return None, [Reason("malformed_record", detail=f"{name_of(record)} instead of an object")]
    resource, reasons, kept = wanted.resource, [], dict[str, Any]()
    for name, given in record.items():
        value = None if isinstance(given, str) and given in wanted.nulls else given
        if name not in resource.header:
            if wanted.ignore_extra or name in wanted.ignored:
                continue
            reasons.append(Reason("unknown_field", shown(name), written(value)))
            continue
        column = resource.column(resource.header[name])
        if column.judged_by_table and (column.kind is not ColumnKind.TEXT or is_text(value)):
            kept[name] = as_text(value, column.kind, has_commas=wanted.has_commas)
        elif value is None or fits(value, column.kind):
            kept[name] = value
        else:
            detail = f"{name_of(value)} instead of {wanted_of(column.kind)}"
            reasons.append(Reason(column.code, column.name, written(value), detail))
            kept[name] = None
    return json.dumps(kept, ensure_ascii=False).encode(), reasons


def as_text(value: Any, kind: ColumnKind, *, has_commas: bool) -> str | None:
    """Write a value that the table reads itself as the text that stands for it, a number with a comma where the numbers
    of texts have one."""
    if has_commas and kind.is_number and isinstance(value, Number):
        return value.replace(".", ",")
    if value is None or (is_text(value) and kind is not ColumnKind.JSON):
        return None if value is None else str(value)
    return as_json(value)


def as_json(value: Any) -> str:
    """Write a value as JSON, with its numbers as they were written."""
    match value:
        case Number():
            return str(value)
        case list():
            return f"[{','.join(map(as_json, value))}]"
        case dict():
            return f"{{{','.join(f'{json.dumps(name)}:{as_json(each)}' for name, each in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def loaded(raw: bytes) -> Any:
    if too_deep(raw):
        raise ValueError(f"nested more than {DEEPEST} deep")
    text = raw.decode()
    record = json.loads(
        text, parse_int=Number, parse_float=Number, parse_constant=refuse_constant, object_pairs_hook=pairs_once
    )
    if r"\u" in text:
        for value in strings_of(record):
            if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
                raise ValueError("half of a surrogate pair")
    return record


def too_deep(raw: bytes) -> bool:
    """Tell whether brackets are nested too deep. They are counted without recursion; those in strings do not count."""
    depth, in_string, escaped = 0, False, False
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    for byte in raw:
        if escaped:
            escaped = False
        elif in_string:
            escaped, in_string = byte == 0x5C, byte != 0x22
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            depth += 1
            if depth > DEEPEST:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


def strings_of(value: Any) -> list[str]:
    match value:
        case Number():
            return []
        case str():
            return [value]
        case list():
            return [text for each in value for text in strings_of(each)]
        case dict():
            return [text for name, each in value.items() for text in (name, *strings_of(each))]
    return []


def fits(value: Any, kind: ColumnKind) -> bool:
    if kind is ColumnKind.BOOLEAN:
        return isinstance(value, bool)
    if kind is ColumnKind.TEXT_LIST:
        # A null inside a list can be read into columns; it is rejected when the column is converted.
        return isinstance(value, list) and all(each is None or is_text(each) for each in value)
    return is_text(value)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def wanted_of(kind: ColumnKind) -> str:
    return {ColumnKind.BOOLEAN: "true or false", ColumnKind.TEXT_LIST: "a list of strings"}.get(kind, "a string")


def name_of(value: Any) -> str:
    match value:
        case Number():
            return "a number"
        case str():
            return "a string"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case list():
            return "a list"
    return "an object"


def written(value: Any) -> str | None:
    """Write a value as JSON; a number stays as it was written in the file."""
    if isinstance(value, Number):
        return shown(str(value))
    return shown(json.dumps(value, ensure_ascii=False))
