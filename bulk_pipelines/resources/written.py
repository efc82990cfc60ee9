"""Declarations as they are written: in the TOML files that people edit and keep in git, and in the requests of jobs, so
that every process that works a job has the same declaration."""

import json
import keyword
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources.declaration import PROVENANCE, Column, Fill, Key, Reference, Referrer, Resource
from bulk_pipelines.resources.rules import EmptyWhen, MaxLength, MaxWords, OneOf, Pattern, Rule

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The names of resources that have a file: they become the names of kinds of job and of assets."""
UNDECLARED = "any_table"
"""What jobs about tables that nobody has declared are called together: they have one kind."""
RESERVED = frozenset(
    {*keyword.kwlist, "bool", "dict", "float", "int", "str", "type", "input", "output", "context", "config", "conf"}
    | {"meta", "arg_dict", "input_arg_dict", "output_arg_dict"}
    | {"distributed_files", "entities", "images", "lookups", "matches", "notices", "reconciliations"}
    | {"file", "rows", UNDECLARED, f"{UNDECLARED}_export"}
)
"""Names that no resource can have: Dagster refuses words of Python and some of its own, and others belong to assets and
jobs of the program."""


def job_name(resource: str) -> str:
    """Return what kinds of job are called after: the resource, or the word for all that are not declared."""
    return resource if NAME.fullmatch(resource) else UNDECLARED


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WrittenColumn(Strict):
    name: str
    kind: ColumnKind
    type: str
    stored_as: str = ""
    required: bool = False
    has_default: bool = False
    refuse_blank: bool = False
    takes_empty: bool = False
    in_files: str = ""
    fill: Literal["new_id", "import_time", "change_time"] | None = None
    searchable: bool = False
    code: str | None = None
    one_of: tuple[str, ...] = ()
    pattern: str | None = None
    max_length: int | None = None
    max_words: int | None = None
    says: str = ""

    def column(self) -> Column:
        code = self.code or "invalid_value"
        rules: list[Rule] = []
        if self.one_of:
            rules.append(OneOf(self.one_of, code))
        if self.pattern is not None:
            rules.append(Pattern(whole(self.pattern), code, f"of the form `{self.pattern}`"))
        if self.max_length is not None:
            rules.append(MaxLength(self.max_length))
        if self.max_words is not None:
            rules.append(MaxWords(self.max_words, self.code or "too_long"))
        if rules and self.kind is not ColumnKind.TEXT:
            raise InvalidInput(
                self.name, f"one_of, pattern, max_length and max_words are for text, not {self.kind.value}"
            )
        if self.fill is not None and FILLED[self.fill] is not self.kind:
            raise InvalidInput(self.name, f"{self.fill} fills in a {FILLED[self.fill].value}")
        return Column(
            self.name,
            self.kind,
            self.says,
            required=self.required,
            fill=None if self.fill is None else Fill[self.fill.upper()],
            rules=tuple(rules),
            own_code=self.code,
            searchable=self.searchable,
            type=self.type,
            stored_as=self.stored_as,
            has_default=self.has_default,
            in_files=self.in_files,
            may_be_blank=not self.refuse_blank,
            takes_empty=self.takes_empty,
        )


class WrittenKey(Strict):
    columns: tuple[str, ...]
    constraint: str
    code: str = "duplicate_key"


class WrittenReference(Strict):
    columns: tuple[str, ...]
    table: str
    table_schema: str
    to: tuple[str, ...]
    constraint: str
    code: str = "invalid_reference"


class WrittenReferrer(Strict):
    table: str
    table_schema: str
    columns: tuple[str, ...]
    to: tuple[str, ...]


class WrittenRule(Strict):
    """A column that is empty while another one has a certain value."""

    empty: str
    when: str
    has: str
    code: str


class Written(Strict):
    name: str
    table: str
    table_schema: str
    provenance: bool = False
    says: str = ""
    columns: tuple[WrittenColumn, ...]
    keys: tuple[WrittenKey, ...] = ()
    references: tuple[WrittenReference, ...] = ()
    rules: tuple[WrittenRule, ...] = ()
    referred_to_by: tuple[WrittenReferrer, ...] = ()

    def resource(self) -> Resource:
        columns = tuple(each.column() for each in self.columns)
        check_names(self, [each.name for each in columns])
        return Resource(
            name=self.name,
            says=self.says,
            columns=columns,
            keys=tuple(Key(each.columns[0], each.code, each.constraint, more=each.columns[1:]) for each in self.keys),
            references=tuple(
                Reference(
                    each.columns[0],
                    each.table,
                    each.code,
                    each.constraint,
                    each.columns[1:],
                    each.table_schema,
                    each.to,
                )
                for each in self.references
            ),
            record_rules=tuple(EmptyWhen(each.empty, each.when, each.has, each.code) for each in self.rules),
            schema=self.table_schema,
            table_name=self.table,
            provenance=self.provenance,
            referrers=tuple(
                Referrer(each.table_schema, each.table, each.columns, each.to) for each in self.referred_to_by
            ),
        )


FILLED = {"new_id": ColumnKind.UUID, "import_time": ColumnKind.TIMESTAMP, "change_time": ColumnKind.TIMESTAMP}


def whole(pattern: str) -> str:
    """Return the pattern so that it matches whole texts."""
    return pattern if pattern.startswith("^") and pattern.endswith("$") else f"^(?:{pattern})$"


def check_names(given: Written, columns: list[str]) -> None:
    if len(set(columns)) < len(columns):
        raise InvalidInput("columns", "a column is named twice")
    named = [name for key in given.keys for name in key.columns]
    named += [name for each in given.references for name in each.columns]
    named += [name for each in given.rules for name in (each.empty, each.when)]
    for name in named:
        if name not in columns:
            raise InvalidInput("columns", f"{name!r} is named by a key, a reference or a rule, and is no column")
    if set(columns) & set(PROVENANCE):
        raise InvalidInput("columns", f"{', '.join(PROVENANCE)} are filled in by imports")
    in_files = [each.in_files or each.name for each in given.columns]
    if len(set(in_files)) < len(in_files):
        raise InvalidInput("columns", "two columns have one name in files")


def parse(given: Mapping[str, Any], place: str) -> Resource:
    """Return the declaration that is written; `place` says in an error where that is."""
    try:
        return Written.model_validate(given).resource()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(each) for each in first["loc"])
        raise InvalidInput(place, f"{where}: {first['msg']}") from None
    except InvalidInput as error:
        raise InvalidInput(place, str(error)) from None


@lru_cache(maxsize=64)
def parsed(text: str) -> Resource:
    """Return the declaration in the request of a job."""
    return parse(json.loads(text), "declaration")


def as_dict(resource: Resource) -> dict[str, Any]:
    """Return the declaration of an adopted table as it is written. What is not said is what is usual."""
    written = Written(
        name=resource.name,
        table=resource.table,
        table_schema=resource.schema or "",
        provenance=resource.provenance,
        says=resource.says,
        columns=tuple(column_as_written(each) for each in resource.columns),
        keys=tuple(
            WrittenKey(columns=each.columns, constraint=each.constraint, code=each.code) for each in resource.keys
        ),
        references=tuple(
            WrittenReference(
                columns=each.columns,
                table=each.resource,
                table_schema=each.schema or "",
                to=each.to,
                constraint=each.constraint,
                code=each.code,
            )
            for each in resource.references
        ),
        rules=tuple(
            WrittenRule(empty=each.column, when=each.when_column, has=each.when_value, code=each.code)
            for each in resource.record_rules
        ),
        referred_to_by=tuple(
            WrittenReferrer(table=each.table, table_schema=each.schema, columns=each.columns, to=each.to)
            for each in resource.referrers
        ),
    )
    return written.model_dump(mode="json", exclude_defaults=True)


def column_as_written(column: Column) -> WrittenColumn:
    found: dict[str, Any] = {} if column.fill is None else {"fill": column.fill.name.lower()}
    for rule in column.rules:
        match rule:
            case OneOf(values=values):
                found["one_of"] = values
            case Pattern(regex=regex):
                found["pattern"] = regex
            case MaxLength(characters=characters):
                found["max_length"] = characters
            case MaxWords(words=words):
                found["max_words"] = words
    return WrittenColumn(
        name=column.name,
        kind=column.kind,
        type=column.type,
        stored_as=column.stored_as,
        required=column.required,
        has_default=column.has_default,
        refuse_blank=not column.may_be_blank,
        takes_empty=column.takes_empty,
        in_files=column.in_files,
        searchable=column.searchable,
        code=column.own_code,
        says=column.says,
        **found,
    )
