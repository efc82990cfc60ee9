"""The conditions on declared columns that say which rows are exported. All of them must hold. docs/exports.md has the
grammar."""

import ipaddress
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources.declaration import Column, Resource

Value = str | bool | int | float | Decimal | date | datetime | uuid.UUID


class Operator(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    PREFIX = "^="
    CONTAINS = "~="
    IN = "in"
    NOT_IN = "not in"
    NULL = "is null"
    NOT_NULL = "is not null"


SETS = {Operator.IN, Operator.NOT_IN}
NULLS = {Operator.NULL, Operator.NOT_NULL}
EQUALITY = {Operator.EQUAL, Operator.NOT_EQUAL}
RANGES = {Operator.LESS, Operator.AT_MOST, Operator.MORE, Operator.AT_LEAST}

OPERATORS: dict[ColumnKind, set[Operator]] = {
    ColumnKind.UUID: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.TEXT: EQUALITY | SETS | RANGES | NULLS | {Operator.PREFIX},
    ColumnKind.BOOLEAN: EQUALITY | NULLS,
    ColumnKind.TIMESTAMP: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.TEXT_LIST: {Operator.CONTAINS} | NULLS,
    ColumnKind.SMALLINT: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.INTEGER: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.BIGINT: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.NUMERIC: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.REAL: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.DOUBLE: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.DATE: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.LOCAL_TIMESTAMP: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.TIME: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.INTERVAL: EQUALITY | SETS | RANGES | NULLS,
    ColumnKind.JSON: {Operator.CONTAINS} | NULLS,
    ColumnKind.BYTES: NULLS,
    ColumnKind.NETWORK: EQUALITY | SETS | RANGES | {Operator.CONTAINS} | NULLS,
    ColumnKind.ARRAY: {Operator.CONTAINS} | NULLS,
    ColumnKind.OTHER: NULLS,
}

TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
FILTER = re.compile(
    r"""\s* (?: (?P<plain>[A-Za-z_][A-Za-z0-9_]*) | "(?P<quoted>(?:[^"]|"")+)" ) \s*
        (?: \s (?P<null> is \s+ null | is \s+ not \s+ null ) \s* $
          | \s (?P<set> in | not \s+ in ) \s (?P<members>.*)
          | (?P<sign> [=!<>^~]+ ) (?P<value>.*) )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of a column that needs no quotes."""
MEMBER = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<bare>[^,]*?))\s*(?P<more>,|\Z)')


@dataclass(frozen=True)
class Filter:
    """One condition. It keeps its values as text, so that it can be stored, shown and parsed again."""

    field: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        field = self.field if PLAIN.fullmatch(self.field) else '"' + self.field.replace('"', '""') + '"'
        if self.operator in NULLS:
            return f"{field} {self.operator}"
        if self.operator in SETS:
            return f"{field} {self.operator} {','.join(quoted(value) for value in self.values)}"
        return f"{field}{self.operator}{quoted(self.values[0])}"


def parse(text: str) -> Filter:
    """Parse a condition that a person wrote: `role=admin`, `created_at>=2026-01-01`, `role in admin,editor`."""
    found = FILTER.fullmatch(text)
    if found is None:
        raise InvalidInput(
            "where",
            f"{text!r} is no condition: write it like role=admin, role in admin,editor or description is null;"
            """ a name that is not plain stands in double quotes: '"Order No">=5'""",
        )
    field = found["plain"] or found["quoted"].replace('""', '"')
    if found["null"]:
        return Filter(field, Operator(" ".join(found["null"].lower().split())))
    if found["set"]:
        return Filter(field, Operator(" ".join(found["set"].lower().split())), members(field, found["members"]))
    if found["sign"] not in set(Operator):
        raise InvalidInput(
            field, f"there is no operator {found['sign']!r}; there are {listed(Operator)}. Quote a value that starts so"
        )
    return Filter(field, Operator(found["sign"]), (single(field, found["value"]),))


def of_object(given: Mapping[str, object]) -> tuple[Filter, ...]:
    """Return the conditions that an object of fields and values says: a value must be equal, a list is a choice of
    values, and null stands for no value."""
    return tuple(of_member(field, value) for field, value in given.items())


def of_member(field: str, value: object) -> Filter:
    if value is None:
        return Filter(field, Operator.NULL)
    if isinstance(value, list | tuple):
        return Filter(field, Operator.IN, tuple(plain(field, each) for each in value))
    return Filter(field, Operator.EQUAL, (plain(field, value),))


def plain(field: str, value: object) -> str:
    """Return a value of JSON as a condition has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    raise InvalidInput(
        field, f"{type(value).__name__} is no value of a filter: give a text, a boolean, null, or a list"
    )


def as_object(conditions: Iterable[Filter]) -> dict[str, Any]:
    """Return the conditions as an object of fields and values, without those that no such object can express."""
    found: dict[str, Any] = {}
    for each in conditions:
        match each.operator:
            case Operator.EQUAL:
                found[each.field] = each.values[0]
            case Operator.IN:
                found[each.field] = list(each.values)
            case Operator.NULL:
                found[each.field] = None
    return found


def quoted(value: str) -> str:
    plain = value == value.strip() and value[:1] not in {"", '"', *"=!<>^~"} and not set(value) & set(",\r\n")
    return value if plain else '"' + value.replace('"', '""') + '"'


def single(field: str, text: str) -> str:
    """Return the one value in the text, without the blanks around it and without its double quotes. A value stands in
    double quotes when it is empty, begins with a quote or an operator's sign, or has blanks around it."""
    text = text.strip()
    if not text:
        raise InvalidInput(field, f'no value follows the operator: "" is the empty text, `{field} is null` no value')
    if not text.startswith('"'):
        return text
    values = members(field, text)
    if len(values) != 1:
        raise InvalidInput(field, f"{text} goes on after its closing quote")
    return values[0]


def members(field: str, text: str) -> tuple[str, ...]:
    """Return the values in the text, which commas separate. A value stands in double quotes when it holds a comma,
    begins with a quote, is empty, or has blanks around it."""
    values: list[str] = []
    position = 0
    while True:
        found = MEMBER.match(text, position)
        if found is None or (found["quoted"] is None and found["bare"][:1] in {"", '"'}):
            raise InvalidInput(field, f"{text.strip()!r} is not a list of values: a value is missing, or a quote")
        values.append(found["bare"] if found["quoted"] is None else found["quoted"].replace('""', '"'))
        if not found["more"]:
            return tuple(values)
        position = found.end()


def moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d(\.\d{1,6})?)?(\s*(Z|[+-]\d{1,2}(:?\d\d)?))?")
UNITS = "(micro|milli)?seconds?|secs?|minutes?|mins?|hours?|days?|weeks?|months?|mons?|years?"
SPAN = re.compile(
    rf"""P(?=.) (-?\d+(\.\d+)?[YMWD])* (T(-?\d+(\.\d+)?[HMS])+)?
        | (?=.) ([+-]?\d+(\.\d+)?\s*({UNITS})\s*)* ([+-]?\d+:\d\d(:\d\d(\.\d{{1,6}})?)?)?""",
    re.VERBOSE | re.IGNORECASE,
)


def clock(text: str) -> str:
    return shaped(CLOCK, text)


def span(text: str) -> str:
    return shaped(SPAN, text)


def shaped(form: re.Pattern[str], text: str) -> str:
    """Return the text if it has the form; PostgreSQL reads it."""
    if form.fullmatch(text) is None:
        raise ValueError(text)
    return text


def network(text: str) -> str:
    if "%" in text:
        raise ValueError(text)
    ipaddress.ip_interface(text)
    return text


def document(text: str) -> str:
    try:
        json.loads(text)
    except RecursionError:
        raise ValueError(text) from None
    return text


READ: dict[ColumnKind, Callable[[str], Value]] = {
    ColumnKind.UUID: uuid.UUID,
    ColumnKind.BOOLEAN: lambda text: TRUTH[text.lower()],
    ColumnKind.TIMESTAMP: moment,
    ColumnKind.LOCAL_TIMESTAMP: lambda text: datetime.fromisoformat(text).replace(tzinfo=None),
    ColumnKind.DATE: date.fromisoformat,
    ColumnKind.SMALLINT: int,
    ColumnKind.INTEGER: int,
    ColumnKind.BIGINT: int,
    ColumnKind.REAL: float,
    ColumnKind.DOUBLE: float,
    ColumnKind.NUMERIC: Decimal,
    ColumnKind.TIME: clock,
    ColumnKind.INTERVAL: span,
    ColumnKind.NETWORK: network,
    ColumnKind.JSON: document,
}
"""How the value in a condition is read, by the kind of its column."""


def check(condition: Filter, resource: Resource) -> tuple[Value, ...]:
    """Return the condition's values, each as its column's kind has it. Raise `InvalidInput` if the resource does not
    allow the condition."""
    column = find(resource, condition.field)
    allowed = OPERATORS[column.kind] | ({Operator.CONTAINS} if column.searchable else set())
    if condition.operator not in allowed:
        raise InvalidInput(
            column.name, f"{condition.operator!s} cannot be asked of a {column.kind.value}; there are {listed(allowed)}"
        )
    few, many = (0, 0) if condition.operator in NULLS else (1, None if condition.operator in SETS else 1)
    if len(condition.values) < few or (many is not None and len(condition.values) > many):
        raise InvalidInput(column.name, f"{condition.operator!s} does not take {len(condition.values)} values")
    in_words = column.kind is ColumnKind.TEXT and condition.operator is Operator.CONTAINS
    if in_words and not any(map(str.isalnum, condition.values[0])):
        raise InvalidInput(column.name, f"{condition.values[0]!r} has no word in it to look for")
    return tuple(typed(column, value) for value in condition.values)


def find(resource: Resource, name: str) -> Column:
    if name not in resource.column_names:
        raise InvalidInput(name, f"{resource.name} have no such field; they have {', '.join(resource.column_names)}")
    return resource.column(name)


def typed(column: Column, text: str) -> Value:
    if "\0" in text:
        raise InvalidInput(column.name, "the value holds a NUL character, which no text in PostgreSQL can")
    try:
        text.encode()
        return READ.get(column.kind, str)(
            text if column.kind in {ColumnKind.TEXT, ColumnKind.TEXT_LIST, ColumnKind.ARRAY} else text.strip()
        )
    except (ValueError, KeyError, OverflowError, InvalidOperation):
        raise InvalidInput(column.name, f"{text!r} is not a {column.kind.value}") from None


def listed(operators: type[Operator] | set[Operator]) -> str:
    return ", ".join(each.value for each in Operator if each in operators)
