"""CHECK constraints that nobody declared: PostgreSQL is asked, for all rows of a batch at once, which rows break any.
To find these rows by trying, in small pieces, takes much longer.

Only constraints are asked for that see the rows as they are sent. What such a question cannot tell is left to trying.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import psycopg
from psycopg import sql

from bulk_pipelines.database import namespaces, queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.load import refusals, tables
from bulk_pipelines.imports.load.refusals import Refusal
from bulk_pipelines.resources.declaration import Resource


@dataclass(frozen=True)
class Check:
    """A constraint: its name, its condition as PostgreSQL writes it, and the columns that it is about."""

    name: str
    condition: str
    columns: tuple[str, ...]


def of_table(connection: Connection, resource: Resource) -> list[Check]:
    """Return the constraints that files give all columns for. Our own tables have none that are not declared."""
    if resource.built_in:
        return []
    values = {"table": tables.quoted(resource, connection)}
    rows = connection.execute(queries.text("imports", "checks"), values)
    found = [Check(name, condition, tuple(columns)) for name, condition, columns in rows]
    return [each for each in found if set(each.columns) <= set(resource.column_names)]


def columns_of(checks: Iterable[Check]) -> list[str]:
    return [name for each in checks for name in each.columns]


def broken(
    connection: Connection, resource: Resource, checks: list[Check], staged: sql.Composable
) -> dict[int, Refusal]:
    """Return what the table will say of the rows that break any of these, by the numbers under which they are staged.
    Of several constraints it names the first, as PostgreSQL does."""
    if not checks:
        return {}
    names = dict.fromkeys(columns_of(checks))
    # The values are compared as the table would hold them: a `character(3)` is padded, for instance.
    values = [
        sql.SQL("{name}::{type}").format(name=sql.Identifier(name), type=type_of(resource, name)) for name in names
    ]
    named = [sql.SQL("{} AS {}").format(value, sql.Identifier(name)) for value, name in zip(values, names, strict=True)]
    cases = [sql.SQL("WHEN ({}) IS FALSE THEN {}").format(sql.SQL(each.condition), each.name) for each in checks]
    query = sql.SQL(
        "SELECT import_line, broken FROM (SELECT import_line, CASE {} END AS broken FROM"
        " (SELECT import_line, {} FROM {}) given) judged WHERE broken IS NOT NULL"
    ).format(sql.SQL(" ").join(cases), tables.listed(named), staged)
    try:
        with namespaces.theirs(connection):
            rows = connection.execute(query, prepare=False).fetchall()
    except psycopg.Error as error:
        if not refusals.about_rows(error):
            raise
        return {}  # a condition or a domain fails on some value: which row that is, is found by trying
    return {
        number: Refusal(f'new row for relation "{resource.table}" violates check constraint "{name}"', name)
        for number, name in rows
    }


def type_of(resource: Resource, name: str) -> sql.SQL:
    column = resource.column(name)
    return sql.SQL(column.type or column.exact_type)
