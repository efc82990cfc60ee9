"""The request as SQL. SQLAlchemy binds the values and psycopg quotes them into the text, because COPY takes no
parameters."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import psycopg as psycopg_dialect

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.exports import filters
from bulk_pipelines.exports.filters import Filter, Operator, Value
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.formats import xlsx
from bulk_pipelines.resources.declaration import Column, Resource

Element = sa.ColumnElement[Any]
DIALECT: sa.Dialect = psycopg_dialect.dialect()  # type: ignore[no-untyped-call]
Statement = sa.Select[*tuple[Any, ...]]

# This stands in a composed statement for the condition on the table's blocks. No value that anybody gives can equal it
# by chance.
BLOCKS = f"blocks_{secrets.token_hex(16)}"
# This stands for the query of somebody else, whose text is neither parsed nor bound here.
GIVEN = f"given_{secrets.token_hex(16)}"

TYPES: dict[ColumnKind, sa.types.TypeEngine[Any]] = {
    ColumnKind.UUID: sa.Uuid(),
    ColumnKind.TEXT: sa.Text(),
    ColumnKind.BOOLEAN: sa.Boolean(),
    ColumnKind.TIMESTAMP: sa.TIMESTAMP(timezone=True),
    ColumnKind.TEXT_LIST: postgresql.ARRAY(sa.Text()),
    ColumnKind.SMALLINT: sa.Numeric(),
    ColumnKind.INTEGER: sa.Numeric(),
    ColumnKind.BIGINT: sa.Numeric(),
    ColumnKind.NUMERIC: sa.Numeric(),
    ColumnKind.REAL: sa.Float(24),
    ColumnKind.DOUBLE: sa.Float(53),
    ColumnKind.DATE: sa.Date(),
    ColumnKind.LOCAL_TIMESTAMP: sa.TIMESTAMP(),
}
"""The types of the values that columns are compared with. Other values are read by PostgreSQL, as the types of their
columns."""

# What Excel, LibreOffice and Google Sheets take for the start of a formula, also behind a tab or a line break;
# the wide forms are read as the narrow ones in some languages.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001

COMPARISONS: dict[Operator, Callable[[Element, Any], Element]] = {
    Operator.EQUAL: lambda column, value: column == value,
    # NULL counts as different from every value; a plain != would leave out the rows that have no value.
    Operator.NOT_EQUAL: lambda column, value: column.is_distinct_from(value),
    Operator.LESS: lambda column, value: column < value,
    Operator.AT_MOST: lambda column, value: column <= value,
    Operator.MORE: lambda column, value: column > value,
    Operator.AT_LEAST: lambda column, value: column >= value,
    Operator.PREFIX: lambda column, value: column.op("^@", is_comparison=True)(value),
}


def rows(request: ExportRequest) -> Statement:
    """Return the statement that selects the rows, with each column in the form that the file's format needs."""
    table = source_of(request)
    selected: Statement = sa.select(*(shaped(request, column, table.c[column.name]) for column in request.columns))
    selected = narrowed(selected, request, table)
    if request.order:
        ordered = [table.c[each.field].desc() if each.descending else table.c[each.field] for each in request.order]
        selected = selected.order_by(*ordered, *(table.c[name] for name in request.declared.id_columns))
    if request.format in {Format.JSON, Format.NDJSON}:
        # Where a column is called as the row is, that name means the column.
        name = "record"
        while name in selected.selected_columns:
            name += "_"
        record = selected.subquery(name)
        return sa.select(sa.func.row_to_json(record.table_valued()))
    return selected


def count(request: ExportRequest) -> Statement:
    table = source_of(request)
    return narrowed(sa.select(sa.func.count()).select_from(table), request, table)


def composed(statement: Statement, connection: Connection, given: str = "") -> str:
    """Return the statement's text with its values in it, quoted the way this connection's server reads them, and with
    the query that was given. `within` must still put the blocks in."""
    compiled = statement.compile(dialect=DIALECT, compile_kwargs={"render_postcompile": True})
    text = psycopg.ClientCursor(connection).mogrify(str(compiled), compiled.params)
    # The query's last line may end with a comment.
    return text.replace(GIVEN, f"({given}\n)")


def within(composed_statement: str, blocks: range | None) -> str:
    """Return a composed statement for the whole table, or for the rows in some of its blocks."""
    if blocks is None:
        return composed_statement.replace(BLOCKS, "true")
    condition = f"ctid >= '({blocks.start},0)'::tid AND ctid < '({blocks.stop},0)'::tid"
    return composed_statement.replace(BLOCKS, condition)


def source_of(request: ExportRequest) -> sa.FromClause:
    """Return what the rows are selected from: a table, or a query."""
    if not request.query:
        return table_of(request.declared)
    return sa.table(GIVEN, *columns_of(request.declared)).alias("given")


def table_of(resource: Resource) -> sa.TableClause:
    return sa.table(resource.table, *columns_of(resource), schema=resource.schema)


def columns_of(resource: Resource) -> list[sa.ColumnClause[Any]]:
    return [sa.column(column.name, TYPES.get(column.kind, sa.types.NullType())) for column in resource.columns]


def narrowed(selected: Statement, request: ExportRequest, table: sa.FromClause) -> Statement:
    conditions = [condition(each, request.declared, table) for each in request.filters]
    return selected.where(*conditions, sa.text(BLOCKS))


def condition(wanted: Filter, resource: Resource, table: sa.FromClause) -> Element:
    values: Sequence[Value] = filters.check(wanted, resource)
    column: Element = table.c[wanted.field]
    declared = resource.column(wanted.field)
    kind = declared.kind
    # Of a composite value, IS NULL would ask for every field.
    if wanted.operator is Operator.NULL:
        return column.is_not_distinct_from(None)
    if wanted.operator is Operator.NOT_NULL:
        return column.is_distinct_from(None)
    column, bound = comparable(column, declared, wanted.operator, values)
    if wanted.operator is Operator.CONTAINS:
        return contains(column, kind, bound[0])
    if any(key.column == wanted.field and key.ignores_case for key in resource.keys):
        # The "C" collation is the column's own. In the database's, which may be Turkish, the lower case of I may be
        # another letter.
        column, bound = sa.func.lower(column), [sa.func.lower(sa.collate(value, "C")) for value in bound]
    if wanted.operator is Operator.IN:
        return column.in_(bound)
    if wanted.operator is Operator.NOT_IN:
        return sa.or_(column.is_(None), column.not_in(bound))
    return COMPARISONS[wanted.operator](column, bound[0])


READ_THERE = {ColumnKind.TIME, ColumnKind.INTERVAL, ColumnKind.JSON, ColumnKind.NETWORK, ColumnKind.ARRAY}
"""Kinds whose values are sent as text, because only PostgreSQL knows all of their forms."""


TEXTS = {"text", "character varying", "bpchar"}


def is_read_as_its_type(column: Column) -> bool:
    """Tell whether values are texts for us alone: PostgreSQL compares an enum with no text, and citext otherwise than
    a text."""
    return column.kind is ColumnKind.TEXT and column.base_type not in TEXTS


def comparable(
    column: Element, declared: Column, operator: Operator, values: Sequence[Value]
) -> tuple[Element, list[Element]]:
    """Return the column and the values in types that the operator takes."""
    texts: list[Element] = [sa.literal(value, sa.Text()) for value in values]
    own = is_read_as_its_type(declared)
    if own and operator is Operator.PREFIX:
        # Only texts have such an operator.
        column = sa.cast(column, sa.Text())
        if declared.base_type.endswith("citext"):
            return sa.func.lower(column), [sa.func.lower(each) for each in texts]
        return column, texts
    if own or declared.kind in READ_THERE:
        # No operator takes a domain over an enum.
        column = sa.cast(column, Named(declared.base_type)) if own and declared.stored_as else column
        return column, [as_type(value, type_of_values(declared)) for value in values]
    if declared.kind is ColumnKind.TEXT_LIST:
        return column, texts
    return column, [sa.literal(value, TYPES[declared.kind]) for value in values]


class Named(sa.types.UserDefinedType[Any]):
    """A type by its name."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        return self.name


def as_type(value: Value, name: str) -> Element:
    return sa.cast(sa.literal(value, sa.Text()), Named(name))


def type_of_values(column: Column) -> str:
    """Return the type of the values that a column is compared with: of an array, that of its elements."""
    match column.kind:
        case ColumnKind.JSON:
            return "jsonb"
        case ColumnKind.ARRAY:
            return column.base_type.removesuffix("[]")
        case ColumnKind.NETWORK:
            return "inet"
    return column.base_type


def contains(column: Element, kind: ColumnKind, value: Element) -> Element:
    """Return the condition that a list holds the value as one of its members, that JSON contains it, that a network
    contains the address, or that a text holds its words. The words are found by PostgreSQL's full text search.

    No language is assumed: words are found as they are written, in upper or lower case.
    """
    match kind:
        case ColumnKind.TEXT_LIST:
            return value == sa.any_(column)
        case ColumnKind.ARRAY:
            return value.op("=", is_comparison=True)(sa.func.any(column))
        case ColumnKind.JSON:
            return sa.cast(column, Named("jsonb")).op("@>", is_comparison=True)(value)
        case ColumnKind.NETWORK:
            return column.op("<<=", is_comparison=True)(value)
    simple: Element = sa.literal_column("'simple'::regconfig")
    return sa.func.to_tsvector(simple, column).op("@@", is_comparison=True)(sa.func.websearch_to_tsquery(simple, value))


def shaped(request: ExportRequest, column: Column, value: Element) -> Element:
    if column.judged_by_table and as_its_text(request.format, column.kind):
        return sa.cast(value, sa.Text()).label(column.name)
    match request.format, column.kind:
        case Format.CSV, ColumnKind.BOOLEAN:
            value = sa.cast(value, sa.Text())
        case Format.CSV, ColumnKind.TEXT_LIST:
            value = sa.func.to_json(value)
        case Format.XLSX, ColumnKind.TEXT_LIST:
            value = sa.cast(sa.func.to_json(value), sa.Text())
        case Format.CSV, ColumnKind.TEXT if request.escape_formulas:
            starts = sa.func.left(value, 1).in_(FORMULA_STARTS)
            value = sa.case((starts, sa.literal("'", sa.Text()).concat(value)), else_=value)
    return value.label(column.name)


def as_its_text(file: Format, kind: ColumnKind) -> bool:
    """Tell whether values are written as PostgreSQL writes them, because the format has nothing of its own for them. A
    number and JSON stand in JSON as they are; an array does not, since JSON has no arrays with bounds."""
    if file is Format.XLSX:
        return kind not in {*xlsx.OWN_FORM, *PLAIN}
    if file in {Format.PARQUET, Format.ARROW}:
        return kind not in PLAIN and pa.types.is_string(kind.arrow)
    return file in {Format.JSON, Format.NDJSON} and kind in {ColumnKind.ARRAY, ColumnKind.OTHER}


PLAIN = {ColumnKind.UUID, ColumnKind.TEXT, ColumnKind.TEXT_LIST}
