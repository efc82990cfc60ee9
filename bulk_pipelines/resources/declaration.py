"""The parts of which a resource is declared. Parsing, validation, loading, exports, filters and the documentation read
these declarations."""

from dataclasses import dataclass
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

    @property
    def code(self) -> str:
        """The code of the reason for rejecting a value that is not of the column's kind."""
        return self.own_code or self.kind.code

    @property
    def nullable(self) -> bool:
        """Whether the table may hold no value here."""
        return not self.required and self.fill is None


@dataclass(frozen=True)
class Key:
    """A column in which no two rows have the same value. `constraint` is the unique index or constraint that ensures
    this."""

    column: str
    code: str
    constraint: str
    ignores_case: bool = False


@dataclass(frozen=True)
class Reference:
    """A column that names a row of another resource by its id."""

    column: str
    resource: str
    code: str
    constraint: str


@dataclass(frozen=True)
class Resource:
    """A kind of record that can be imported and exported. The first key is its id; a second key, if there is one, is
    its natural key."""

    name: str
    says: str
    columns: tuple[Column, ...]
    keys: tuple[Key, ...]
    references: tuple[Reference, ...] = ()
    record_rules: tuple[EmptyWhen, ...] = ()

    @property
    def table(self) -> str:
        return self.name

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def id_key(self) -> Key:
        return self.keys[0]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def key(self, column: str) -> Key:
        return next(key for key in self.keys if key.column == column)
