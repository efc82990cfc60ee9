"""Pieces of SQL about the tables of a resource, composed from its declaration."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from psycopg import sql

from bulk_pipelines import resources
from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.resources.declaration import Key, Reference, Resource


def table(resource: Resource) -> sql.Identifier:
    return sql.Identifier(*resource.place)


def quoted(resource: Resource, connection: Connection) -> str:
    """Return the name of the table as it is written in SQL."""
    return table(resource).as_string(connection)


def aside(context: ImportContext) -> sql.Identifier:
    """Name the table in which records wait that passed the rules of the resource but are not in its table."""
    return aside_of(context.resource, context.job_id)


def aside_of(resource: Resource, job_id: int) -> sql.Identifier:
    """Name the table in which the records of a job wait. Each of our own tables has one for all imports. Every import
    into another table has one of its own, because nobody tells us when such a table changes."""
    return namespaces.own(f"{resource.table}_aside" if resource.built_in else f"import_aside_{job_id}")


def ledger(context: ImportContext) -> sql.Identifier:
    """Name the table of the keys and lines of the rows that an import has loaded into a table without provenance. A
    row there and the row that it speaks of are written by the same (sub)transaction, so they have the same `xmin` for
    as long as nobody changes one of them."""
    return namespaces.own(f"import_ledger_{context.job_id}")


def keeps_ledger(context: ImportContext) -> bool:
    """Tell whether the rows of this import must be noted in a ledger, because they do not say where they come from."""
    resource = context.resource
    return context.mode is Mode.INSERT and not resource.provenance and bool(resource.keys)


def ledger_columns(resource: Resource) -> list[str]:
    return list(dict.fromkeys(name for key in resource.keys for name in key.columns))


def columns(resource: Resource, alias: str | None = None) -> sql.Composed:
    """List the columns that an import gives to the table: those of the resource, and those that say from where each row
    came."""
    return listed(
        sql.Identifier(*([alias] if alias else []), name) for name in (*resource.column_names, *resource.origin)
    )


def plain(resource: Resource, names: Iterable[str]) -> sql.Composed:
    """Select these columns with their declared types, for a copy of the table that accepts values which a domain or a
    length of the table would refuse."""
    return listed(
        sql.SQL("{name}::{type} AS {name}").format(
            name=sql.Identifier(name), type=sql.SQL(resource.column(name).base_type)
        )
        for name in names
    )


def key_parts(key: Key, alias: str) -> list[sql.Composed]:
    """Write the expressions by which rows are compared when this key is: those of its unique index."""
    columns = [sql.SQL("{}").format(sql.Identifier(alias, name)) for name in key.columns]
    return [sql.SQL("lower({})").format(column) for column in columns] if key.ignores_case else columns


def key(key: Key, alias: str) -> sql.Composed:
    return listed(key_parts(key, alias))


def same(key_: Key, one: str, other: str) -> sql.Composed:
    pairs = zip(key_parts(key_, one), key_parts(key_, other), strict=True)
    return listed([sql.SQL("{} = {}").format(*pair) for pair in pairs], " AND ")


def is_whole(key: Key, alias: str) -> sql.Composed:
    """Write the condition that no column of a key is missing. Rows that lack one never have the same key."""
    return listed([is_given(alias, name) for name in key.columns], " AND ")


def is_given(alias: str, name: str) -> sql.Composed:
    """Write the condition that a column has a value. `IS NOT NULL` would ask for every field of a composite one."""
    return sql.SQL("{} IS DISTINCT FROM NULL").format(sql.Identifier(alias, name))


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
    pairs = zip(reference.to, reference.columns, strict=True)
    same_row = [sql.SQL("r.{} = {}").format(sql.Identifier(to), sql.Identifier(alias, name)) for to, name in pairs]
    given = [is_given(alias, name) for name in reference.columns]
    return sql.SQL("({} AND (SELECT true FROM {} r WHERE {} LIMIT 1) IS NULL)").format(
        listed(given, " AND "), sql.Identifier(*reference.table), listed(same_row, " AND ")
    )


def names(reference: Reference, one: str, other: str) -> sql.Composed:
    """Write the condition that a row names another one."""
    pairs = zip(reference.columns, reference.to, strict=True)
    return listed(
        [sql.SQL("{} = {}").format(sql.Identifier(one, name), sql.Identifier(other, to)) for name, to in pairs], " AND "
    )


def unreferenced(resource: Resource, alias: str) -> list[sql.Composed]:
    """Write the conditions that no row refers to this one: one for each column of a resource that could. Rows that name
    rows of their own table are left to `own_references`. If this role cannot see who refers to it, anybody might."""
    if any(each.hidden for each in resource.referrers):
        return [sql.SQL("{}").format(False)]
    own = [((other.table,), (column,), ("id",), (None,)) for other, column in resources.referrers(resource)]
    if resource.referrers:  # they were looked up, those of our own tables, too
        own = []
    others = [
        ((each.schema, each.table), each.columns, each.to, each.collations or (None,) * len(each.columns))
        for each in resource.referrers
        if not any(each.columns == ours.columns and each.to == ours.to for ours in resource.own_references)
        or (each.schema, each.table) != resource.place
    ]
    return [
        sql.SQL("(SELECT true FROM {} r WHERE {} LIMIT 1) IS NULL").format(
            sql.Identifier(*place),
            listed(
                [
                    sql.SQL("r.{} = {}{}").format(
                        sql.Identifier(column), sql.Identifier(alias, name), sql.SQL(f" COLLATE {by}" if by else "")
                    )
                    for column, name, by in zip(columns, to, collations, strict=True)
                ],
                " AND ",
            ),
        )
        for place, columns, to, collations in [*own, *others]
    ]


def own_line(context: ImportContext, key: Key, alias: str) -> sql.Composed:
    """Write the expression for the line of the row `alias`, which has this key: null unless this import has loaded the
    row and nobody has changed it since."""
    if context.resource.provenance:
        return sql.SQL("CASE WHEN {} IS NOT DISTINCT FROM {} AND NOT {} THEN {} END").format(
            sql.Identifier(alias, "import_job"),
            context.job_id,
            sql.Identifier(alias, "import_revised"),
            sql.Identifier(alias, "import_line"),
        )
    return sql.SQL("(SELECT l.import_line FROM {} l WHERE {} AND l.xmin = {}.xmin LIMIT 1)").format(
        ledger(context), same(key, "l", alias), sql.Identifier(alias)
    )


def own(context: ImportContext, key: Key, alias: str) -> sql.Composed:
    """Write the condition for rows that this import has loaded and nobody has changed since."""
    return sql.SQL("({} IS NOT NULL)").format(own_line(context, key, alias))


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
