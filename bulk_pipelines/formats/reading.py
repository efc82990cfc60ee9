"""How a file is to be read, as far as somebody has told: its dialect and encoding, and which field goes to which
column. What nobody tells is recognised, if it is certain."""

import codecs
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Self

from bulk_pipelines.errors import InvalidInput

MARKS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}
CHARACTER = re.compile(r"[\x09\x20-\x7e]")
ENCODINGS = ("utf", "iso8859", "latin", "cp", "koi8", "mac", "shift_jis", "euc", "gb", "big5", "hz", "iso2022", "tis")
"""How the names of the encodings begin that a file may have. Python has others, which are no encodings of text."""
DATE_PARTS = "aAbBdDeFHIjmMnpSTyY%"
LONGEST_SKIP = 10_000
TRUE, FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off", "")


class FileFormat(StrEnum):
    """The formats of files that can be imported. The last three are tables, and are landed as rows
    (`formats/rows.py`)."""

    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"
    XLSX = "xlsx"
    PARQUET = "parquet"
    ARROW = "arrow"


CSV, XLSX = frozenset({FileFormat.CSV}), frozenset({FileFormat.XLSX})
TEXTS = CSV | {FileFormat.NDJSON, FileFormat.JSON}
TYPED = frozenset({FileFormat.PARQUET, FileFormat.ARROW})
MEANT_FOR = {
    **dict.fromkeys(("delimiter", "quote", "escape"), CSV),
    **dict.fromkeys(("no_header", "fields"), CSV | XLSX),
    "encoding": TEXTS,
    "skip_lines": TEXTS | XLSX,
    "sheet": XLSX,
}
"""The options that have a meaning in some formats alone."""


@dataclass(frozen=True)
class Reading:
    """What was told of a file. The names of the fields are those of the options at every door."""

    delimiter: str | None = None
    quote: str | None = None
    """A character, or the empty text if nothing is quoted."""
    escape: str | None = None
    encoding: str | None = None
    skip_lines: int = 0
    no_header: bool = False
    fields: tuple[str, ...] = ()
    """The names of the fields of a file without a header."""
    nulls: tuple[str, ...] = ()
    decimal: str | None = None
    dates: tuple[tuple[str, str], ...] = ()
    """The columns whose dates have another form than ISO 8601, each with its form."""
    sheet: str | None = None
    """The name or the number of a sheet."""
    member: str | None = None
    """Which files of an archive are meant."""
    map: tuple[tuple[str, str], ...] = ()
    """Columns, each with the field that it gets."""
    ignore: tuple[str, ...] = ()
    """The fields that are left out."""
    ignore_extra: bool = False
    """Whether fields that fit no column are left out."""
    constants: tuple[tuple[str, str], ...] = ()
    expressions: tuple[tuple[str, str], ...] = ()
    """Columns, each with the SQL expression that makes its value from the fields."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Read and check what a person or a configuration tells. Lists and pairs may also be given as text."""
        known = {field.name for field in fields(cls)}
        values = {
            name: CHECKS[name](name, value) for name, value in given.items() if name in known and value is not None
        }
        told = cls(**{name: value for name, value in values.items() if value is not None})
        told.check()
        return told

    def of_records(self, *, of_table: bool) -> Self:
        """Return how to read a file into which records of such files were written. It is in UTF-8, with nothing before
        the records. If the files were tables, it is CSV with a header."""
        same = replace(self, encoding=None, skip_lines=0, sheet=None, member=None)
        return replace(same, delimiter=None, quote=None, escape=None, no_header=False, fields=()) if of_table else same

    @property
    def asks_postgres(self) -> bool:
        """Whether PostgreSQL makes the values of some column from the fields."""
        return bool(self.expressions) or len({field for _, field in self.map}) < len(self.map)

    def refuse_idle(self, formats: Collection[str]) -> None:
        """Raise `InvalidInput` for an option that has no meaning in files of these formats."""
        told = self.as_params()
        found = {*formats, *(TYPED if TYPED & set(formats) else ())}  # rows do not tell which of these they were
        for name, meant in MEANT_FOR.items():
            if name in told and not meant & found:
                raise InvalidInput(name, f"has no meaning in {' or '.join(sorted(found))}: leave it out")

    def check(self) -> None:
        marks = [mark for mark in (self.delimiter, self.quote, self.escape) if mark]
        if len(set(marks)) < len(marks):
            raise InvalidInput("delimiter", "the delimiter, the quote and the escape must be different characters")
        if self.fields and not self.no_header:
            raise InvalidInput("fields", "names the fields of a file without a header: it needs no_header")
        made = [name for pairs in (self.map, self.constants, self.expressions) for name, _ in pairs]
        for name in made:
            if made.count(name) > 1:
                raise InvalidInput("map", f"the column {name} gets its value in two ways")

    @classmethod
    def from_params(cls, params: Mapping[str, Any] | None) -> Self:
        """Return what `as_params` returned as values, from the JSON that a job keeps."""
        return cls(**{name: frozen(value) for name, value in (params or {}).items()})

    def as_params(self) -> dict[str, Any]:
        """Return what was told, and nothing else."""
        standard = type(self)()
        return {
            name: [list(each) if isinstance(each, tuple) else each for each in value]
            if isinstance(value, tuple)
            else value
            for name, value in vars(self).items()
            if value != getattr(standard, name)
        }


def frozen(value: Any) -> Any:
    return tuple(frozen(each) for each in value) if isinstance(value, list) else value


def whole(name: str, value: object) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdecimal() or int(text[:9]) > LONGEST_SKIP:
        raise InvalidInput(name, f"{text[:100]!r} is not a whole number up to {LONGEST_SKIP:,}")
    return int(text)


def flag(name: str, value: object) -> bool:
    text = str(value).lower()
    if text not in TRUE + FALSE:
        raise InvalidInput(name, f"{text[:100]!r} is neither true nor false")
    return text in TRUE


def text(name: str, value: object) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise InvalidInput(name, f"{value!r} is not a text")
    return str(value)


def character(name: str, value: object) -> str | None:
    if value is None or value == "":
        return None
    mark = MARKS.get(str(value).lower(), value)
    if name == "quote" and str(value).lower() == "none":
        return ""
    if not isinstance(mark, str) or not CHARACTER.fullmatch(mark) or (name == "delimiter" and mark.isalnum()):
        named = ", ".join(MARKS) if name == "delimiter" else "none" if name == "quote" else "\\"
        raise InvalidInput(name, f"{str(value)[:100]!r} is not a character of ASCII (or {named})")
    return mark


def encoding(name: str, value: object) -> str | None:
    told = text(name, value)
    if told is None:
        return None
    try:
        found = codecs.lookup(told).name
    except (LookupError, UnicodeError, ValueError):
        found = ""
    if not found.replace("-", "_").startswith(ENCODINGS) or found in {"utf-7"}:
        raise InvalidInput(
            name, f"{told[:100]!r} is not the name of an encoding, such as utf-8, utf-16, cp1252, latin-1"
        )
    return found


def decimal(name: str, value: object) -> str | None:
    told = text(name, value)
    if told not in {None, ",", ".", "comma", "point"}:
        raise InvalidInput(name, f"{told!r} is neither a comma nor a point")
    return "," if told in {",", "comma"} else None


def texts(name: str, value: object) -> tuple[str, ...]:
    """Accept a list, a JSON list as text, or one text."""
    if isinstance(value, str):
        value = loaded(name, value) if value.startswith("[") else [value] if value else []
    if value is None:
        return ()
    if not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise InvalidInput(name, f"{str(value)[:100]} is not a list of texts")
    return tuple(dict.fromkeys(value))


def names(name: str, value: object) -> tuple[str, ...]:
    """Accept names as a list, or separated by commas."""
    if isinstance(value, str):
        split = [each.strip() for each in value.split(",")] if value else []
        value = loaded(name, value) if value.startswith("[") else split
    found = texts(name, value)
    if "" in found or (isinstance(value, Sequence) and len(found) < len(value)):
        raise InvalidInput(name, "a name is empty, or there twice")
    return found


def pairs(name: str, value: object) -> tuple[tuple[str, str], ...]:
    """Accept a table, or a list of pairs and of texts such as COLUMN=VALUE. Each of these may also be JSON as text."""
    if isinstance(value, str) and value:
        value = loaded(name, value) if value.startswith("[") else [value]
    if isinstance(value, Mapping):
        found: list[Any] = list(value.items())
    else:
        given: Any = value or ()
        found = [pair for each in given for pair in (split(name, each) if isinstance(each, str) else [each])]
    for each in found:
        parts = each if isinstance(each, list | tuple) else ()
        if len(parts) != 2 or not all(isinstance(part, str) for part in parts) or not parts[0]:
            raise InvalidInput(name, f"{str(each)[:100]} is not of the form COLUMN=VALUE")
    return tuple((key, each) for key, each in found)


def split(name: str, told: str) -> list[tuple[str, Any]]:
    """Return what a text tells: of one column, or as JSON."""
    if told.startswith("{"):
        found = loaded(name, told)
        return list(found.items())
    column, mark, value = told.partition("=")
    if not mark or not column.strip():
        raise InvalidInput(name, f"{told[:100]!r} is not of the form COLUMN=VALUE")
    return [(column.strip(), value.strip())]


def date_forms(name: str, value: object) -> tuple[tuple[str, str], ...]:
    found = pairs(name, value)
    for column, form in found:
        parts = [form[place + 1 : place + 2] for place, mark in enumerate(form.replace("%%", "  ")) if mark == "%"]
        if not parts or any(part not in DATE_PARTS or not part for part in parts):
            raise InvalidInput(name, f"{column}={form[:100]}: a form is written such as %d.%m.%Y or %Y%m%d %H:%M:%S")
    return found


def loaded(name: str, told: str) -> Any:
    try:
        return json.loads(told)
    except (ValueError, RecursionError):
        raise InvalidInput(name, f"{told[:100]!r} is not JSON") from None


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("delimiter", "quote", "escape"), character),
    **dict.fromkeys(("no_header", "ignore_extra"), flag),
    **dict.fromkeys(("sheet", "member"), text),
    **dict.fromkeys(("map", "constants", "expressions"), pairs),
    **dict.fromkeys(("nulls", "ignore"), texts),
    "encoding": encoding,
    "skip_lines": whole,
    "fields": names,
    "decimal": decimal,
    "dates": date_forms,
}

STANDARD = Reading()
"""The reading of a file of which nothing was told."""
