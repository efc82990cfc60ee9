"""How a resource is declared. Parsing, validation, loading, exports, filters and the documentation read this."""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.rules import EmptyWhen, Rule

# Every resource table ends with these: which import and which line of its file wrote the row, and whether
# anybody changed it since. Null, null and false for a row that did not come from an import.
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
        """The reason given for a value that is not of the column's kind."""
        return self.own_code or self.kind.code

    @property
    def nullable(self) -> bool:
        """Whether the table may hold no value here."""
        return not self.required and self.fill is None


@dataclass(frozen=True)
class Key:
    """A column no two rows share. `constraint` is the unique index or constraint that holds it."""

    column: str
    code: str
    constraint: str
    ignores_case: bool = False


@dataclass(frozen=True)
class Reference:
    """A column that names a row of another resource, by that resource's id."""

    column: str
    resource: str
    code: str
    constraint: str


@dataclass(frozen=True)
class Resource:
    """One kind of record. The first key is its id; a second is its natural key, if it has one."""

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
