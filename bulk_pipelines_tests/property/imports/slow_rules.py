"""The rules of a resource, held against one record after the other; and what stands in for what a record leaves out."""

import hashlib
import json
import re
import unicodedata
from datetime import UTC, datetime
from typing import Any

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Column, Fill, Resource
from bulk_pipelines.resources.rules import MaxLength, MaxWords, OneOf, Pattern, Rule
from bulk_pipelines_tests.property.imports.slow_reading import Code, Record

WRONG = object()
IDENTITY = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
SPACES = "\t\n\f\r "
MASK = 2**64 - 1


def judge(record: Record, resource: Resource) -> tuple[dict[str, Any], list[Code]]:
    """The values in the forms of their columns, and everything that is wrong with the record."""
    if record.unreadable:
        return {}, record.codes
    codes, values = list(record.codes), dict[str, Any]()
    told = {name for _, name in codes}
    for column in resource.columns:
        given = record.values.get(column.name)
        if given == "" and column.kind is not ColumnKind.TEXT:
            given = None
        if column.required and (given is None or (isinstance(given, str) and is_blank(given))):
            codes += [("missing_field", column.name)] if column.name not in told else []
            given = None
        value = None if given is None else converted(given, column.kind)
        if value is WRONG:
            codes.append((column.code, column.name))
            value = None
        values[column.name] = value
        if value is not None:
            codes += [(code, column.name) for code in broken(value, column)]
    codes += broken_together(values, resource)
    order = {name: place for place, name in enumerate(resource.column_names)}
    return values, sorted(codes, key=lambda code: order.get(code[1] or "", -1))


def broken_together(values: dict[str, Any], resource: Resource) -> list[Code]:
    return [
        (rule.code, rule.column)
        for rule in resource.record_rules
        if values[rule.column] is not None and values[rule.when_column] == rule.when_value
    ]


def is_space(letter: str) -> bool:
    return letter in SPACES or unicodedata.category(letter).startswith("Z")


def is_blank(text: str) -> bool:
    return all(is_space(letter) for letter in text)


def converted(given: Any, kind: ColumnKind) -> Any:
    match kind:
        case ColumnKind.UUID:
            return given.lower() if IDENTITY.fullmatch(given) else WRONG
        case ColumnKind.BOOLEAN:
            if isinstance(given, bool):
                return given
            return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(
                given.lower(), WRONG
            )
        case ColumnKind.TIMESTAMP:
            return time_of(given)
        case ColumnKind.TEXT_LIST:
            return list_of(given)
        case ColumnKind.TEXT:
            return given


def time_of(text: str) -> Any:
    """Times are drawn from forms that Python and the declaration read alike."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return WRONG
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def list_of(given: Any) -> Any:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return WRONG
    return given if isinstance(given, list) and all(isinstance(each, str) for each in given) else WRONG


def broken(value: Any, column: Column) -> list[str]:
    texts = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    found = ["invalid_character"] if any("\0" in text for text in texts) else []
    return found + [rule.code for rule in column.rules if breaks(value, rule)]


def breaks(text: str, rule: Rule) -> bool:
    match rule:
        case Pattern(regex=regex):
            return re.fullmatch(regex.removeprefix("^").removesuffix("$"), text) is None
        case OneOf(values=values):
            return text not in values
        case MaxLength(characters=most):
            return len(text) > most
        case MaxWords(words=most):
            words = "".join(" " if is_space(letter) else letter for letter in text).split(" ")
            return len([word for word in words if word]) > most


def filled(values: dict[str, Any], resource: Resource, made: str, now: datetime) -> dict[str, Any]:
    """Return a new row, in which something stands in for what is missing, where the declaration says so."""
    stand_ins = {Fill.NEW_ID: made, Fill.IMPORT_TIME: now, Fill.CHANGE_TIME: now, Fill.TRUE: True, Fill.EMPTY_LIST: []}
    return {
        column.name: stand_ins[column.fill] if values[column.name] is None and column.fill else values[column.name]
        for column in resource.columns
    }


def made_id(data: bytes, line: int) -> str:
    """The id of a record that brings none: of the file's content and its line there."""
    seed = hashlib.sha256(data).digest()
    halves = [spread(line ^ int.from_bytes(seed[start : start + 8], "big")) for start in (0, 8)]
    number = halves[0] << 64 | halves[1]
    number = number & ~(0xF << 76) | 8 << 76
    number = number & ~(0x3 << 62) | 2 << 62
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def spread(number: int) -> int:
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31
