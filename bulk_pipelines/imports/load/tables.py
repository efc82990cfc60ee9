"""Pieces of SQL about the tables of a resource, composed from its declaration."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from psycopg import sql

from bulk_pipelines import resources
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.resources.declaration import Key, Reference, Resource


def table(resource: Resource) -> sql.Identifier:
    return sql.Identifier(resource.table)


def aside(resource: Resource) -> sql.Identifier:
    """Name the table in which records wait that passed the rules of the resource but are not in its table."""
    return sql.Identifier(f"{resource.table}_aside")


def columns(resource: Resource, alias: str | None = None) -> sql.Composed:
    """List the columns of the resource, and the columns that say from where each row came."""
    names = (*resource.column_names, "import_job", "import_line")
    return listed(sql.Identifier(*([alias] if alias else []), name) for name in names)


def plain(resource: Resource, names: Iterable[str]) -> sql.Composed:
    """Select these columns with their declared types, for a copy of the table that accepts values which a domain or a
    length of the table would refuse."""
    return listed(
        sql.SQL("{name}::{type} AS {name}").format(
            name=sql.Identifier(name), type=sql.SQL(resource.column(name).kind.postgres)
        )
        for name in names
    )


def key(key: Key, alias: str) -> sql.Composed:
    """Write the expression by which rows are compared when this key is: that of its unique index."""
    column = sql.SQL("{}").format(sql.Identifier(alias, key.column))
    return sql.SQL("lower({})").format(column) if key.ignores_case else column


def same(key_: Key, one: str, other: str) -> sql.Composed:
    return sql.SQL("{} = {}").format(key(key_, one), key(key_, other))


def lookup(resource: Resource, key_: Key, alias: str, outer: str, wanted: sql.Composable) -> sql.Composed:
    """Select what is wanted of the row `alias` that has the same key as the row `outer`; null if there is no such row.

    PostgreSQL runs a subquery for each row, through the index, whatever the statistics say. Statistics are worth
    nothing for tables that are being loaded: after an ANALYZE that saw only uncommitted rows, the plan of a join takes
    a million rows for none.
    """
    return sql.SQL("(SELECT {} FROM {} {} WHERE {})").format(
        wanted, table(resource), sql.Identifier(alias), same(key_, alias, outer)
    )


def leads_nowhere(reference: Reference, alias: str) -> sql.Composed:
    """Write the condition that the row which a reference names does not exist."""
    return sql.SQL("(SELECT true FROM {} r WHERE r.id = {}) IS NULL").format(
        sql.Identifier(reference.resource), sql.Identifier(alias, reference.column)
    )


def unreferenced(resource: Resource, alias: str) -> list[sql.Composed]:
    """Write the conditions that no row refers to this one: one for each column of a resource that could."""
    return [
        sql.SQL("(SELECT true FROM {} r WHERE r.{} = {} LIMIT 1) IS NULL").format(
            sql.Identifier(other.table), sql.Identifier(column), sql.Identifier(alias, "id")
        )
        for other, column in resources.referrers(resource)
    ]


def own(context: ImportContext, alias: str) -> sql.Composed:
    """Write the condition for rows that this import has loaded and nobody has changed since."""
    return sql.SQL("({} IS NOT DISTINCT FROM {} AND NOT {})").format(
        sql.Identifier(alias, "import_job"), context.job_id, sql.Identifier(alias, "import_revised")
    )


def declared(resource: Resource) -> list[str]:
    """Return the names of the constraints that the declaration knows, so that records are compared with them before
    they are written."""
    return [key.constraint for key in resource.keys] + [each.constraint for each in resource.references]


def is_declared(resource: Resource, constraint: str | None) -> bool:
    return constraint in declared(resource)


def listed(parts: Iterable[sql.Composable], separator: str = ", ") -> sql.Composed:
    return sql.SQL(separator).join(parts)


@contextmanager
def planned(connection: Connection, *without: str) -> Iterator[None]:
    """Let statements be planned without some methods, such as "seqscan": the planner cannot know the size of what is
    being loaded."""
    for method in without:
        connection.execute(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(f"enable_{method}")))
    yield
    for method in without:
        connection.execute(sql.SQL("SET LOCAL {} TO DEFAULT").format(sql.Identifier(f"enable_{method}")))
