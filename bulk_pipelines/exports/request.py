"""What an export is asked for. An `ExportRequest` that exists can be answered: its resource declares what it names."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self, TypeVar

from bulk_pipelines import resources
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import filters
from bulk_pipelines.exports.filters import Filter
from bulk_pipelines.resources import written
from bulk_pipelines.resources.declaration import Column, Resource
from bulk_pipelines.storage import addresses


class Format(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"
    PARQUET = "parquet"
    XLSX = "xlsx"
    ARROW = "arrow"

    @property
    def ending(self) -> str:
        """How the name of a file of this format ends. The stream of Arrow has another ending than Arrow's file."""
        return "arrows" if self is Format.ARROW else self.value


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


SUFFIXES = {Compression.NONE: "", Compression.GZIP: ".gz", Compression.ZSTD: ".zst"}
COMPRESSED_INSIDE = {Format.PARQUET, Format.ARROW}
"""Formats that are compressed inside, so that their files are not compressed once more."""
TARGET = "to"
QUERY = "query"
DECLARATION = "declaration"
STDOUT = "-"
NAMES = ("resource", "format", "fields", "where", "filters", "order", "compression", "escape_formulas", TARGET)
FILE_NAME = re.compile(rf".*\.({'|'.join(each.ending for each in Format)})(\.gz|\.zst)?", re.IGNORECASE)
Choice = TypeVar("Choice", Format, Compression)


def kind_name(resource: str) -> str:
    """What the engine calls the exports of a resource."""
    return f"export_{written.job_name(resource)}"


@dataclass(frozen=True)
class Order:
    field: str
    descending: bool = False

    def __str__(self) -> str:
        return f"-{self.field}" if self.descending else self.field


@dataclass(frozen=True)
class ExportRequest:
    resource: str
    format: Format = Format.CSV
    fields: tuple[str, ...] = ()
    """The columns of the file, in this order. When it is empty, the file has all columns in the order of the
    declaration."""
    filters: tuple[Filter, ...] = ()
    order: tuple[Order, ...] = ()
    """What the rows are ordered by; rows that are equal in it are ordered by their id. When it is empty, the rows come
    as they lie in the table, which is quickest."""
    compression: Compression = Compression.NONE
    escape_formulas: bool = False
    """Whether an apostrophe is put before text that a spreadsheet would take for a formula. Such a file is for people:
    an import that reads it keeps the apostrophe as a part of the text."""
    to: str = ""
    """A folder, or the file's own address, which may hold a secret. When it is empty, the file goes into the folder
    that the settings name."""
    declaration: Resource | None = None
    """The declaration of a table that is not one of ours. It goes with the request, so that every process that works
    the job has the same."""
    query: str = ""
    """A SELECT whose rows are exported, in place of those of a table. Its columns are those of the declaration."""

    @classmethod
    def parse(cls, params: Mapping[str, object]) -> Self:
        """Make a request of parameters that come from a command line, a launchpad or JSON.

        Lists may be given as one text with commas, except `where`, whose values may hold commas.
        """
        for name in params:
            if name not in {*NAMES, DECLARATION, QUERY}:
                raise InvalidInput(name, f"is not a parameter of an export; there are {', '.join(NAMES)}")
        escape = params.get("escape_formulas", False)
        if not isinstance(escape, bool):
            raise InvalidInput("escape_formulas", f"{escape!r} is neither true nor false")
        request = cls(
            resource=text("resource", params.get("resource", "")),
            format=chosen(Format, "format", params.get("format", Format.CSV)),
            fields=tuple(texts("fields", params.get("fields", ()))),
            filters=(
                *(filters.parse(each) for each in texts("where", params.get("where", ()), commas=False)),
                *filters.of_object(members("filters", params.get("filters", {}))),
            ),
            order=tuple(
                Order(each.removeprefix("-"), each.startswith("-")) for each in texts("order", params.get("order", ()))
            ),
            compression=chosen(Compression, "compression", params.get("compression", Compression.NONE)),
            escape_formulas=escape,
            declaration=declaration_of(params.get(DECLARATION)),
            query=text(QUERY, params.get(QUERY) or ""),
        )
        return replace(request, to=checked_target(text(TARGET, params.get(TARGET) or ""), request.suffix))

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> "ExportRequest":
        """Return the request of a job. However often this is called, a process parses a request once."""
        return parsed(json.dumps(params, sort_keys=True))

    def __post_init__(self) -> None:
        if self.query and self.declaration is None:
            raise InvalidInput(QUERY, "it is not known which columns it has")
        declared = self.declared
        for name in (*self.fields, *(each.field for each in self.order)):
            filters.find(declared, name)
        refuse_repeated("fields", self.fields)
        refuse_repeated("order", [each.field for each in self.order])
        for condition in self.filters:
            filters.check(condition, declared)
        if self.escape_formulas and self.format is not Format.CSV:
            raise InvalidInput("escape_formulas", f"is for csv: {self.format} tells text from formulas")
        if self.compression is not Compression.NONE and self.format is Format.XLSX:
            raise InvalidInput("compression", "an xlsx file is compressed already")
        if self.compression is Compression.GZIP and self.format is Format.ARROW:
            raise InvalidInput("compression", "arrow has zstd inside, or nothing")

    @property
    def kind_name(self) -> str:
        """What the engine calls exports of this request. Those of queries are called as those of undeclared tables."""
        return kind_name(written.UNDECLARED if self.query else self.resource)

    @property
    def declared(self) -> Resource:
        return self.declaration or resources.find(self.resource)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.declared.column(name) for name in self.fields or self.declared.column_names)

    @property
    def suffix(self) -> str:
        """How the name of a file of this format and compression ends."""
        inside = self.format in COMPRESSED_INSIDE
        return f".{self.format.ending}{'' if inside else SUFFIXES[self.compression]}"

    def shown(self) -> dict[str, Any]:
        """What is asked for, for people to look at: without the target, whose address may hold a secret."""
        asked = {"resource": self.resource} | ({QUERY: self.query} if self.query else {})
        return asked | {
            "format": self.format.value,
            "fields": list(self.fields),
            "where": [str(each) for each in self.filters],
            "order": [str(each) for each in self.order],
            "compression": self.compression.value,
            "escape_formulas": self.escape_formulas,
        }

    def as_params(self) -> dict[str, Any]:
        """Return the request as a job keeps it; `from_params` takes it back."""
        params = self.shown() | {TARGET: self.to}
        if self.query:
            return params | {DECLARATION: {"columns": [column_of_query(each) for each in self.declared.columns]}}
        return params if self.declared.built_in else params | {DECLARATION: written.as_dict(self.declared)}


@lru_cache(maxsize=64)
def parsed(text: str) -> ExportRequest:
    """Parse the JSON that a job keeps of a request."""
    return ExportRequest.parse(json.loads(text))


def declaration_of(given: object) -> Resource | None:
    if given is None or isinstance(given, Resource):
        return given
    if isinstance(given, Mapping) and given.keys() == {"columns"}:
        return of_query([Column(name, ColumnKind(kind), "", type=type_) for name, kind, type_ in given["columns"]])
    return written.parsed(json.dumps(given, sort_keys=True))


def of_query(columns: Iterable[Column]) -> Resource:
    """Declare the rows of a query."""
    return Resource(QUERY, "The rows of a query.", tuple(columns), (), schema="", provenance=False)


def column_of_query(column: Column) -> list[str]:
    """Return what a job keeps of a column of a query."""
    return [column.name, column.kind.value, column.type]


def checked_target(to: str, suffix: str) -> str:
    """Check a target, and return it as a job keeps it. A local path becomes absolute, because another process uses it.
    An empty one stays empty: it stands for the folder of the settings."""
    if not to:
        return ""
    if to == STDOUT:
        raise InvalidInput(TARGET, "only `bulk export` has a standard output, -: name a folder or a file")
    address = addresses.parse(to, TARGET)
    if address.scheme in {"http", "https"}:
        raise InvalidInput(TARGET, f"{addresses.redacted(to)} is a web address: it can only be read")
    name = last_part(to)
    if names_file(to) and not name.endswith(suffix):
        raise InvalidInput(TARGET, f"{name} does not end in {suffix}, as such a file does; or name a folder")
    if address.scheme != "file":
        return to
    return address.path + ("/" if to.endswith("/") else "")


def names_file(to: str) -> bool:
    """Whether a target names a file: its name ends as an exported file's does. All others are folders."""
    return FILE_NAME.fullmatch(last_part(to)) is not None


def last_part(to: str) -> str:
    return to.rpartition("/")[2]


def text(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise InvalidInput(name, f"{given!r} is not text")
    return given


def members(name: str, given: object) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise InvalidInput(name, f"{given!r} is not an object of fields and values")
    return given


def texts(name: str, given: object, commas: bool = True) -> list[str]:
    if isinstance(given, str):
        given = [each.strip() for each in given.split(",")] if commas else [given]
    if not isinstance(given, Iterable):
        raise InvalidInput(name, f"{given!r} is not a list")
    # An empty condition is kept, so that it is refused: whoever gave it wanted some rows, and would get all of them.
    return [each for each in (text(name, each) for each in given) if each or not commas]


def chosen(choices: type[Choice], name: str, given: object) -> Choice:
    try:
        return choices(text(name, given))
    except ValueError:
        raise InvalidInput(name, f"there is no {given!r}; there are {', '.join(choices)}") from None


def refuse_repeated(name: str, given: Iterable[str]) -> None:
    seen: set[str] = set()
    for each in given:
        if each in seen:
            raise InvalidInput(name, f"{each} is named twice")
        seen.add(each)
