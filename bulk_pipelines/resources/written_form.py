"""The form of written declarations, as pydantic knows it. Only a process that reads or writes a declaration imports
this module: pydantic takes a fifth of the time in which a short command is done."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources.declaration import PROVENANCE, Column, Fill, Key, Reference, Referrer, Resource
from bulk_pipelines.resources.rules import EmptyWhen, MaxLength, MaxWords, OneOf, Pattern, Rule


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


class WrittenCatalogue(Strict):
    """What the catalogue said when a file was written. With it, a declaration that is made anew tells what people have
    removed or narrowed from what is new in the table."""

    columns: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    labels: dict[str, tuple[str, ...]] = {}
    keys: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


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
    catalogue: WrittenCatalogue | None = None

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


def as_written(resource: Resource) -> Written:
    return Written(
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
