"""Declaring a resource by what PostgreSQL's catalogue knows of its table."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.database import namespaces, queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.database.session import own_schema
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.resources.declaration import PROVENANCE, Column, Key, Reference, Referrer, Resource
from bulk_pipelines.resources.rules import MaxLength, OneOf, Rule

FIELD = "table"
KINDS = {
    "int2": ColumnKind.SMALLINT,
    "int4": ColumnKind.INTEGER,
    "int8": ColumnKind.BIGINT,
    "numeric": ColumnKind.NUMERIC,
    "float4": ColumnKind.REAL,
    "float8": ColumnKind.DOUBLE,
    "bool": ColumnKind.BOOLEAN,
    "text": ColumnKind.TEXT,
    "varchar": ColumnKind.TEXT,
    "bpchar": ColumnKind.TEXT,
    "citext": ColumnKind.TEXT,
    "date": ColumnKind.DATE,
    "time": ColumnKind.TIME,
    "timetz": ColumnKind.TIME,
    "timestamp": ColumnKind.LOCAL_TIMESTAMP,
    "timestamptz": ColumnKind.TIMESTAMP,
    "interval": ColumnKind.INTERVAL,
    "uuid": ColumnKind.UUID,
    "json": ColumnKind.JSON,
    "jsonb": ColumnKind.JSON,
    "bytea": ColumnKind.BYTES,
    "inet": ColumnKind.NETWORK,
    "cidr": ColumnKind.NETWORK,
}
OURS = {*PROVENANCE, "import_held", "import_missing", "import_refused"}
"""The names of columns that imports give to the tables in which records wait."""
NUMBER = re.compile(r"\s*[0-9]*\s*")
"""What PostgreSQL takes for the number that a table has inside."""
TABLES = {"r", "p"}
OTHERS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


def reflect(connection: Connection, table: str, name: str = "") -> Resource:
    """Declare the table that a person means by this name, which is written as in SQL: `orders`, `shop.orders`,
    `shop."Order Lines"`. The resource is called by `name`, or by the name of the table with its schema."""
    with namespaces.theirs(connection):
        return reflected(connection, table, name)


def reflected(connection: Connection, table: str, name: str) -> Resource:
    oid, schema, relname, comment = found(connection, table)
    rows = connection.execute(queries.text("reflection", "columns"), {"oid": oid}).fetchall()
    columns = [with_empty(connection, column_of(row)) for row in rows]
    there = {column.name for column in columns}
    provenance = there >= set(PROVENANCE)
    columns = [column for column in columns if not (provenance and column.name in PROVENANCE)]
    if not columns:
        raise InvalidInput(FIELD, f"the table {table} has no column that a file could give values for")
    taken = {column.name for column in columns} & OURS
    if taken:
        raise InvalidInput(FIELD, f"the table {table} has a column {min(taken)}, and imports use this name")
    return Resource(
        name=name or f"{schema}.{relname}",
        says=comment or f"The rows of {schema}.{relname}.",
        columns=tuple(columns),
        keys=tuple(keys(connection, oid, columns)),
        references=tuple(references(connection, oid, columns)),
        schema=schema,
        table_name=relname,
        provenance=provenance,
        referrers=tuple(each for each in referrers(connection, oid) if not each.hidden),
    )


def quoted(connection: Connection, place: Sequence[str]) -> str:
    """Return the name of a table, with its schema, as it is written in SQL."""
    return sql.Identifier(*place).as_string(connection)


def unnoted(connection: Connection, place: Sequence[str]) -> list[str]:
    """Return the tables with the rows of a traced table in which it is not noted when somebody changes a row."""
    values = {"table": quoted(connection, place)}
    return [name for (name,) in connection.execute(queries.text("reflection", "unnoted_tables"), values)]


def found(connection: Connection, table: str) -> tuple[int, str, str, str | None]:
    """Return the oid, the schema, the name and the comment of a table that imports and exports can work with."""
    row, said = None, f"{table[:100]!r} is no name"
    if not NUMBER.fullmatch(table):
        try:
            with connection.transaction():
                row = connection.execute(queries.text("reflection", "find_table"), {"table": table}).fetchone()
        except psycopg.Error as error:
            said = error.diag.message_primary or str(error)
    if row is None:
        raise InvalidInput(FIELD, f'{said}. A name is written as in SQL: orders, shop.orders, shop."Orders"')
    oid, schema, name, kind, secured, comment, usable, readable = row
    if schema == own_schema():
        raise InvalidInput(
            FIELD, f"{schema}.{name} is a table of this program itself, which works with those of others"
        )
    if kind not in TABLES:
        raise InvalidInput(
            FIELD,
            f"{table} is {OTHERS.get(kind, 'no table')}: rows are imported into tables. An export of anything else says"
            " which rows with --query",
        )
    if not usable or not readable:
        right = f"USAGE ON SCHEMA {schema}" if not usable else f"SELECT ON {schema}.{name}"
        told = f"this role may not read {schema}.{name}: GRANT {right} TO it"
        raise InvalidInput(FIELD, told if not usable else f"{told}, and INSERT if it is to import")
    if secured:
        raise InvalidInput(
            FIELD,
            f"row-level security of {schema}.{name} holds for this role, so nobody could tell which rows are there:"
            " work with a role that owns the table or has BYPASSRLS",
        )
    return oid, schema, name, comment


def column_of(row: Sequence[Any]) -> Column:
    name, type_name, exact, bare, category, sort, labels, length, needed, filled, comment = row
    kind = kind_of(bare, category, sort)
    rules: tuple[Rule, ...] = ()
    if labels is not None:
        rules = (OneOf(tuple(labels), "invalid_value"),)
    elif length is not None:
        rules = (MaxLength(length),)
    return Column(
        name,
        kind,
        comment or "",
        required=needed,
        rules=rules,
        type=type_name,
        stored_as="" if exact == type_name else exact,
        has_default=filled,
        may_be_blank=True,
    )


def with_empty(connection: Connection, column: Column) -> Column:
    """Say whether an empty text is a value of the column's type, if only PostgreSQL knows what values the type has."""
    if column.kind is not ColumnKind.OTHER:
        return column
    # A field of JSON is read as a field of COPY is: with the length that the column has, and with no cast, which would
    # make any text fit.
    query = sql.SQL("""SELECT FROM json_to_record('{{"given": ""}}') AS read (given {})""").format(sql.SQL(column.type))
    try:
        with connection.transaction():
            connection.execute(query)
    except psycopg.Error:
        return column
    return replace(column, takes_empty=True)


def kind_of(bare: str, category: str, sort: str) -> ColumnKind:
    if sort == "e":
        return ColumnKind.TEXT
    if category == "A":
        return ColumnKind.ARRAY
    return KINDS.get(bare, ColumnKind.OTHER)


def keys(connection: Connection, oid: int, columns: list[Column]) -> list[Key]:
    """Return the keys whose columns files can give. The table alone watches over the others."""
    known = {column.name for column in columns}
    rows = connection.execute(queries.text("reflection", "keys"), {"oid": oid}).fetchall()
    return [
        Key(names[0], "duplicate_key", constraint, more=tuple(names[1:]))
        for constraint, names in rows
        if set(names) <= known
    ]


def references(connection: Connection, oid: int, columns: list[Column]) -> list[Reference]:
    known = {column.name for column in columns}
    rows = connection.execute(queries.text("reflection", "references"), {"oid": oid}).fetchall()
    found: dict[str, Reference] = {}
    for constraint, schema, table, names, to in rows:
        reference = Reference(names[0], table, "invalid_reference", constraint, tuple(names[1:]), schema, tuple(to))
        # Of several references of the same columns, the others are left to the table.
        if known.issuperset(names):
            found.setdefault(reference.name, reference)
    return list(found.values())


def referrers(connection: Connection, oid: int) -> list[Referrer]:
    rows = connection.execute(queries.text("reflection", "referrers"), {"oid": oid})
    return [
        Referrer(schema, table, tuple(columns), tuple(to), tuple(collations), hidden)
        for schema, table, columns, to, collations, hidden in rows
    ]


def as_referred_to(connection: Connection, resource: Resource) -> Resource:
    """Return the resource with what refers to its rows by now. Since it was declared, somebody may have made a table
    whose rows would go with the rows that they refer to, or dropped one."""
    place = quoted(connection, resource.place)
    row = connection.execute("SELECT to_regclass(%s)::oid", [place]).fetchone()
    if row is None or row[0] is None:
        raise Conflict(f"the table {'.'.join(resource.place)} is not there any more")
    return replace(resource, referrers=tuple(referrers(connection, row[0])))
