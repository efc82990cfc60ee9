"""The resource's tables as the imports' SQL names them, composed from the declaration."""

from collections.abc import Iterable

from psycopg import sql

from bulk_pipelines.imports.terms import Terms
from bulk_pipelines.resources.declaration import Key, Resource


def table(resource: Resource) -> sql.Identifier:
    return sql.Identifier(resource.table)


def aside(resource: Resource) -> sql.Identifier:
    """Where records wait that passed the rules of the file but are not in the table."""
    return sql.Identifier(f"{resource.table}_aside")


def columns(resource: Resource, alias: str | None = None) -> sql.Composed:
    """The resource's columns and where each row came from, as a list."""
    names = (*resource.column_names, "import_job", "import_line")
    return listed(sql.Identifier(*([alias] if alias else []), name) for name in names)


def key(key: Key, alias: str) -> sql.Composed:
    """What is compared when the key is: the expression of its unique index."""
    column = sql.SQL("{}").format(sql.Identifier(alias, key.column))
    return sql.SQL("lower({})").format(column) if key.ignores_case else column


def same(key_: Key, one: str, other: str) -> sql.Composed:
    return sql.SQL("{} = {}").format(key(key_, one), key(key_, other))


def own(terms: Terms, alias: str) -> sql.Composed:
    """Rows that this import has loaded, and nobody changed since."""
    return sql.SQL("({} IS NOT DISTINCT FROM {} AND NOT {})").format(
        sql.Identifier(alias, "import_job"), terms.job_id, sql.Identifier(alias, "import_revised")
    )


def listed(parts: Iterable[sql.Composable], separator: str = ", ") -> sql.Composed:
    return sql.SQL(separator).join(parts)
