"""The parts of which a resource is declared. Parsing, validation, loading, exports, filters and the documentation read
these declarations."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.rules import EmptyWhen, Rule

# The last columns of every resource's table: which import and which line of its file wrote the row, and whether anybody
# has changed it since. They are null, null and false for a row that did not come from an import.
PROVENANCE = ("import_job", "import_line", "import_revised")


class Fill(Enum):
    """What stands in for a value that the file does not give."""

    NEW_ID = "an id made from the file's content and the line, so the same file gives the same ids"
    IMPORT_TIME = "the time at which the import was submitted"
    CHANGE_TIME = "the time at which the import was submitted, for a row that an upsert changes as for a new one"
    TRUE = "true"
    EMPTY_LIST = "an empty list"


def without_precision(type_: str) -> str:
    """Return the name of a type without its length or precision."""
    if type_.startswith('"') or type_.endswith('"'):
        return type_
    if type_.startswith("interval"):
        return "interval" + ("[]" if type_.endswith("]") else "")
    plain = re.sub(r"\(\d+(,-?\d+)?\)", "", type_)
    # Without a length, these names would mean a length of one.
    return re.sub(r"^bit\b(?! varying)", '"bit"', re.sub(r"^character\b(?! varying)", "bpchar", plain))


@dataclass(frozen=True)
class Column:
    name: str
    kind: ColumnKind
    says: str
    required: bool = False
    fill: Fill | None = None
    rules: tuple[Rule, ...] = ()
    own_code: str | None = None
    searchable: bool = False
    """Whether exports can ask for the rows whose text holds certain words."""
    type: str = ""
    """The type of the column as PostgreSQL writes it, such as `numeric(10,2)` or the name of a domain. If it is empty,
    the type is that of the kind, and values that are not of the kind are rejected without asking the table."""
    stored_as: str = ""
    """The type below the domain, if the type is one."""
    has_default: bool = False
    """Whether the table itself fills in the column when the file does not have it."""
    in_files: str = ""
    """The name of the column in files, if it is another one."""
    may_be_blank: bool = False
    """Whether a required text may be empty or white space."""
    takes_empty: bool = False
    """Whether an empty text is a value of a type that only PostgreSQL knows."""

    @property
    def empty_is_value(self) -> bool:
        """Whether an empty text in a file is a value, and not the lack of one."""
        return self.kind is ColumnKind.TEXT or self.takes_empty

    @property
    def judged_by_table(self) -> bool:
        """Whether the table reads values that have not the plain form of their kind."""
        return bool(self.type)

    @property
    def exact_type(self) -> str:
        return self.stored_as or self.type or self.kind.postgres

    @property
    def base_type(self) -> str:
        """The type without any domain, length or precision: it takes values that the column would refuse or cut."""
        return without_precision(self.exact_type)

    @property
    def code(self) -> str:
        """The code of the reason for rejecting a value that is not of the column's kind."""
        return self.own_code or self.kind.code

    @property
    def needed_in_files(self) -> bool:
        """Whether a file must have the column."""
        return self.required and not self.has_default and self.fill is None


@dataclass(frozen=True)
class Key:
    """One or more columns in which no two rows have the same values. `constraint` is the unique index or constraint
    that ensures this."""

    column: str
    code: str
    constraint: str
    ignores_case: bool = False
    more: tuple[str, ...] = ()
    """The columns of the key behind the first one."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, *self.more)

    @property
    def name(self) -> str:
        """What the key is called: the names of its columns."""
        return ",".join(self.columns)


@dataclass(frozen=True)
class Reference:
    """Columns that name a row of another resource, or of any other table, by its id or another key."""

    column: str
    resource: str
    code: str
    constraint: str
    more: tuple[str, ...] = ()
    schema: str | None = None
    """The schema of the table that the resource stands for. None means a table on the search path."""
    to: tuple[str, ...] = ("id",)
    """The columns of the other table, in the order of `columns`."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, *self.more)

    @property
    def name(self) -> str:
        return ",".join(self.columns)

    @property
    def table(self) -> tuple[str, ...]:
        return (self.resource,) if self.schema is None else (self.schema, self.resource)


@dataclass(frozen=True)
class Referrer:
    """Columns of another table, or of this one, that name a row of this one by the columns `to`."""

    schema: str
    table: str
    columns: tuple[str, ...]
    to: tuple[str, ...]
    collations: tuple[str | None, ...] = field(default=(), compare=False)
    """The collations by which the columns compare, if they have any: both sides need not have the same."""
    hidden: bool = field(default=False, compare=False)
    """Whether this role cannot see its rows, which would change if a row that they refer to were deleted."""


@dataclass(frozen=True)
class Resource:
    """A kind of record that can be imported and exported. The first key is its id; a second key, if there is one, is
    its natural key. A table that is declared by its catalogue may have other keys, or none."""

    name: str
    says: str
    columns: tuple[Column, ...]
    keys: tuple[Key, ...]
    references: tuple[Reference, ...] = ()
    record_rules: tuple[EmptyWhen, ...] = ()
    schema: str | None = None
    """The schema of the table. None means that this project made the table, with everything that imports need."""
    table_name: str = ""
    provenance: bool = True
    """Whether rows say which import and which line they come from."""
    referrers: tuple[Referrer, ...] = ()

    @property
    def table(self) -> str:
        return self.table_name or self.name

    @property
    def place(self) -> tuple[str, ...]:
        """The name of the table, with its schema if that is known."""
        return (self.table,) if self.schema is None else (self.schema, self.table)

    @property
    def built_in(self) -> bool:
        return self.schema is None

    @property
    def own_references(self) -> tuple[Reference, ...]:
        """The references to rows of the same table."""
        return tuple(each for each in self.references if each.table == self.place)

    @property
    def origin(self) -> tuple[str, ...]:
        """The columns of the table that an import fills in to say where a row comes from."""
        return PROVENANCE[:2] if self.provenance else ()

    def narrowed(self, names: Collection[str]) -> "Resource":
        """Return the resource as a file with these columns has it. The table fills in the other columns, so keys and
        references that have any of them can only be judged by the table."""
        if self.built_in:
            return self
        there = {column.name for column in self.columns if column.name in names or column.fill}
        return replace(
            self,
            columns=tuple(column for column in self.columns if column.name in there),
            keys=tuple(key for key in self.keys if there.issuperset(key.columns)),
            references=tuple(each for each in self.references if there.issuperset(each.columns)),
            record_rules=tuple(each for each in self.record_rules if {each.column, each.when_column} <= there),
        )

    @property
    def header(self) -> dict[str, str]:
        """The names of the columns in files, each with the name of its column."""
        return {column.in_files or column.name: column.name for column in self.columns}

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns of the first key; none if there is no key."""
        return self.keys[0].columns if self.keys else ()

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def key(self, name: str) -> Key:
        return next(key for key in self.keys if key.name == name)
