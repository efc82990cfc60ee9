"""The resource's tables as the imports' SQL names them, composed from the declaration."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from bulk_pipelines import resources
from bulk_pipelines.imports.terms import Terms
from bulk_pipelines.resources.declaration import Key, Reference, Resource


def table(resource: Resource) -> sql.Identifier:
    return sql.Identifier(resource.table)


def aside(resource: Resource) -> sql.Identifier:
    """Where records wait that passed the rules of the file but are not in the table."""
    return sql.Identifier(f"{resource.table}_aside")


def columns(resource: Resource, alias: str | None = None) -> sql.Composed:
    """The resource's columns and where each row came from, as a list."""
    names = (*resource.column_names, "import_job", "import_line")
    return listed(sql.Identifier(*([alias] if alias else []), name) for name in names)


def plain(resource: Resource, names: Iterable[str]) -> sql.Composed:
    """These columns by their declared types, for a copy that takes values which a domain, or a length, would refuse."""
    return listed(
        sql.SQL("{name}::{type} AS {name}").format(
            name=sql.Identifier(name), type=sql.SQL(resource.column(name).kind.postgres)
        )
        for name in names
    )


def key(key: Key, alias: str) -> sql.Composed:
    """What is compared when the key is: the expression of its unique index."""
    column = sql.SQL("{}").format(sql.Identifier(alias, key.column))
    return sql.SQL("lower({})").format(column) if key.ignores_case else column


def same(key_: Key, one: str, other: str) -> sql.Composed:
    return sql.SQL("{} = {}").format(key(key_, one), key(key_, other))


def lookup(resource: Resource, key_: Key, alias: str, outer: str, wanted: sql.Composable) -> sql.Composed:
    """What is wanted of the row `alias` that has the same key as the row `outer`; null if there is none.

    A subquery of its own is asked row by row, through the index, whatever the statistics say. They say nothing of value
    about tables that are being loaded: an ANALYZE that saw only uncommitted rows makes a join take a million rows for
    none.
    """
    return sql.SQL("(SELECT {} FROM {} {} WHERE {})").format(
        wanted, table(resource), sql.Identifier(alias), same(key_, alias, outer)
    )


def leads_nowhere(reference: Reference, alias: str) -> sql.Composed:
    """Whether the row that a reference names does not exist."""
    return sql.SQL("(SELECT true FROM {} r WHERE r.id = {}) IS NULL").format(
        sql.Identifier(reference.resource), sql.Identifier(alias, reference.column)
    )


def unreferenced(resource: Resource, alias: str) -> list[sql.Composed]:
    """That no row of another resource refers to this one, for each column that could."""
    return [
        sql.SQL("(SELECT true FROM {} r WHERE r.{} = {} LIMIT 1) IS NULL").format(
            sql.Identifier(other.table), sql.Identifier(column), sql.Identifier(alias, "id")
        )
        for other, column in resources.referrers(resource)
    ]


def own(terms: Terms, alias: str) -> sql.Composed:
    """Rows that this import has loaded, and nobody changed since."""
    return sql.SQL("({} IS NOT DISTINCT FROM {} AND NOT {})").format(
        sql.Identifier(alias, "import_job"), terms.job_id, sql.Identifier(alias, "import_revised")
    )


def declared(resource: Resource) -> list[str]:
    """The constraints that records are compared with beforehand."""
    return [key.constraint for key in resource.keys] + [each.constraint for each in resource.references]


def is_declared(resource: Resource, constraint: str | None) -> bool:
    return constraint in declared(resource)


def listed(parts: Iterable[sql.Composable], separator: str = ", ") -> sql.Composed:
    return sql.SQL(separator).join(parts)


@contextmanager
def planned(connection: psycopg.Connection[Any], *without: str) -> Iterator[None]:
    """Statements that are planned without some methods: the planner cannot know the size of what is being loaded."""
    for method in without:
        connection.execute(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(f"enable_{method}")))
    yield
    for method in without:
        connection.execute(sql.SQL("SET LOCAL {} TO DEFAULT").format(sql.Identifier(f"enable_{method}")))
