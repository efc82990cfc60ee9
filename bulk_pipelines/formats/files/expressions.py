"""Expressions of SQL that make a column from the fields of a record. PostgreSQL evaluates them, for a whole block at
once, in a transaction that may only read."""

import re
from collections.abc import Collection, Sequence

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.columns import binary_copy
from bulk_pipelines.columns.arrow import Column, column, compute, to_mask
from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files.values import Made

FIELDS = sql.Identifier("pg_temp", "fields_of_file")
NUMBER = "number of the record"
"""The name of a column that no field has."""
QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
FORBIDDEN = re.compile(r";|--|/\*|\$|\\'|'\s*$")


def check(pool: Engine, fields: Sequence[str], expressions: Sequence[tuple[str, str]]) -> None:
    """Raise `InvalidInput` if one of these is no expression on the fields, or is more than one."""
    for name, expression in expressions:
        refuse_more(name, expression)
        try:
            with transaction(pool) as connection:
                namespaces.turn_to_theirs(connection)
                lay_out(connection, fields)
                constrain(connection, expression)
                values(connection, query_of(expression), 0, 0)
        except psycopg.Error as error:
            raise InvalidInput("expressions", f"{name} = {expression}: {said(error)}") from None


def refuse_more(name: str, expression: str) -> None:
    """Refuse a text that would end the parentheses that it is put into."""
    bare = QUOTED.sub("''", expression)
    depth = 0
    for mark in bare:
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if depth < 0:
            break
    quotes = bare.replace("''", "")
    if depth or FORBIDDEN.search(bare.replace("''", "x")) or "'" in quotes or '"' in quotes or "\\'" in expression:
        raise InvalidInput("expressions", f"{name} = {expression[:200]}: this is not one expression of SQL")


def evaluate(
    pool: Engine, table: pa.Table, expressions: Sequence[tuple[str, str]], commas: Collection[str] = ()
) -> Made:
    """Return the columns that the expressions make from the fields, as text. A record at which an expression fails has
    none, and what PostgreSQL said is returned with its number. The columns `commas` get a decimal comma where an
    expression gives a number, because the numbers of their texts have one."""
    texts = {name: column(table, name).cast(pa.string()) for name in table.column_names if is_text(table, name)}
    found: dict[str, Column] = {}
    failed: dict[int, tuple[str, str]] = {}
    for name, values_of in texts.items():
        with_nul = to_mask(compute.match_substring(values_of, "\0"))
        if with_nul.any():
            texts[name] = compute.if_else(pa.array(with_nul), pa.scalar(None, pa.string()), values_of)
            failed |= dict.fromkeys(np.flatnonzero(with_nul).tolist(), (expressions[0][0], f"{name} holds a NUL"))
    with transaction(pool) as connection:
        namespaces.turn_to_theirs(connection)
        lay_out(connection, list(texts))
        numbers = {NUMBER: pa.array(range(table.num_rows), pa.int64())}
        binary_copy.copy(connection, FIELDS, binary_copy.encode(numbers | texts))
        for name, expression in expressions:
            refuse_more(name, expression)
            constrain(connection, expression)
        connection.execute("SET TRANSACTION READ ONLY")
        for each in expressions:
            made: list[str | None] = [None] * table.num_rows
            query = query_of(each[1], has_commas=each[0] in commas)
            try_range(connection, each[0], query, 0, table.num_rows, made, failed)
            found[each[0]] = pa.array(made, pa.string())
    return found, failed


def is_text(table: pa.Table, name: str) -> bool:
    return bool(pa.types.is_string(table.schema.field(name).type) or pa.types.is_boolean(table.schema.field(name).type))


def lay_out(connection: Connection, fields: Sequence[str]) -> None:
    listed = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in fields)
    connection.execute(
        sql.SQL("CREATE TEMP TABLE fields_of_file ({} bigint{}) ON COMMIT DROP").format(
            sql.Identifier(NUMBER), sql.SQL(", ") + listed if fields else sql.SQL("")
        )
    )


def constrain(connection: Connection, expression: str) -> None:
    """Let PostgreSQL read the expression where it allows neither queries nor aggregates: in a constraint, which is
    never applied."""
    connection.execute(
        sql.SQL("ALTER TABLE {} ADD CHECK (({})::text IS NULL OR true) NOT VALID").format(FIELDS, spoken(expression)),
        prepare=False,
    )


def spoken(expression: str) -> sql.SQL:
    return sql.SQL(expression.replace("{", "{{").replace("}", "}}"))


def try_range(
    connection: Connection,
    name: str,
    query: sql.Composed,
    first: int,
    stop: int,
    made: list[str | None],
    failed: dict[int, tuple[str, str]],
) -> None:
    """Evaluate an expression for these records; if it fails, for each half of them, down to the record that is to
    blame."""
    try:
        with connection.transaction():
            for number, value in values(connection, query, first, stop):
                made[number] = value
    except psycopg.errors.OperationalError:
        raise
    except psycopg.Error as error:
        if stop - first == 1:
            failed.setdefault(first, (name, said(error)))
            return
        middle = (first + stop) // 2
        try_range(connection, name, query, first, middle, made, failed)
        try_range(connection, name, query, middle, stop, made, failed)


def query_of(expression: str, *, has_commas: bool = False) -> sql.Composed:
    """Return the query for what an expression gives for some records."""
    text = expression.replace("%", "%%").replace("{", "{{").replace("}", "}}")
    query = "SELECT {number}, (" + text + ") AS made FROM {table} WHERE {number} >= %s AND {number} < %s"
    made = "made::text"
    if has_commas:
        is_number = "(SELECT typcategory FROM pg_catalog.pg_type WHERE oid = pg_catalog.pg_typeof(made)) = 'N'"
        made = f"CASE WHEN {is_number} THEN pg_catalog.replace(made::text, '.', ',') ELSE made::text END"
    whole = sql.SQL("SELECT {number}, " + made + " FROM (" + query + ") AS expressed")
    return whole.format(number=sql.Identifier(NUMBER), table=FIELDS)


def values(connection: Connection, query: sql.Composed, first: int, stop: int) -> list[tuple[int, str | None]]:
    return connection.execute(query, (first, stop), prepare=False).fetchall()


def said(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error).splitlines()[0]
