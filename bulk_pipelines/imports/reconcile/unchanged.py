"""What the table has before records are merged into it: which of them are about rows that are there, and which of these
rows say the same already."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.load import tables
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.resources.declaration import Column, Fill, Key

IMAGES = {ColumnKind.TEXT_LIST, ColumnKind.JSON, ColumnKind.ARRAY, ColumnKind.OTHER}
"""Kinds of which not every type can be compared by its own operator. Their values are compared as they are kept."""


@dataclass(frozen=True)
class RowsBefore:
    """What the rows said when the records were compared with them. Whoever changes them before the merge is not seen
    here: what is merged is right all the same."""

    ids: Sequence[Any] = ()
    """The ids of the rows of one of our own tables."""
    same: frozenset[int] = frozenset()
    """The lines of the records whose rows say the same."""
    other: frozenset[int] = frozenset()
    """The lines of the records whose rows say something else."""

    def counts(self, taken: Collection[int]) -> Counts:
        """Return what became of the records that the table took."""
        there = frozenset(taken)
        return Counts(loaded=len(there), updated=len(self.other & there), unchanged=len(self.same & there))


def compared(
    connection: Connection, context: ImportContext, match_on: Key, layout: Layout, lines: list[int]
) -> RowsBefore:
    """Look up the rows that these records are about, each through the index of the key."""
    resource = context.resource
    query = sql.SQL(
        """
            SELECT {ids}, array_agg(a.import_line) FILTER (WHERE found.same),
                array_agg(a.import_line) FILTER (WHERE NOT found.same)
            FROM (SELECT * FROM {aside} WHERE import_job = {job} AND import_line = ANY (%s)) a
                CROSS JOIN LATERAL (SELECT {id} AS id, {same} AS same FROM {table} t WHERE {about} LIMIT 1) found
            """
    ).format(
        ids=sql.SQL("array_agg(found.id)" if resource.built_in else "NULL"),
        aside=tables.aside(context),
        job=context.job_id,
        id=sql.SQL("t.id" if resource.built_in else "NULL"),
        same=says_the_same(changing(context, layout)),
        table=tables.table(resource),
        about=tables.same(match_on, "t", "a"),
    )
    with tables.planned(connection, "seqscan"):
        row = connection.execute(query, [lines], prepare=False).fetchone()
    ids, same, other = row or (None, None, None)
    return RowsBefore(ids or [], frozenset(same or ()), frozenset(other or ()))


def changing(context: ImportContext, layout: Layout) -> list[Column]:
    """Return the columns that the records give to rows that exist."""
    kept = set(context.resource.id_columns)
    return [column for column in context.resource.columns if column.name in layout.columns and column.name not in kept]


def says_the_same(columns: Sequence[Column]) -> sql.Composed:
    return tables.listed([*(same(column) for column in columns), sql.SQL("true")], " AND ")


def same(column: Column) -> sql.Composed:
    """Write the condition that the row `t` has in this column what the record `a` gives. Where a record without a value
    leaves the row's own, it gives that."""
    name = sql.Identifier(column.name)
    old = sql.SQL("t.{}").format(name)
    new = sql.SQL("coalesce(a.{}, t.{})" if isinstance(column.fill, Fill) else "a.{}").format(
        *([name, name] if isinstance(column.fill, Fill) else [name])
    )
    if column.kind in IMAGES:
        type_ = sql.SQL(column.base_type)
        return sql.SQL("record_image_eq(ROW({}::{}), ROW({}::{}))").format(old, type_, new, type_)
    if column.kind is ColumnKind.TEXT:
        return sql.SQL('({})::text COLLATE "C" IS NOT DISTINCT FROM ({})::text COLLATE "C"').format(old, new)
    return sql.SQL("{} IS NOT DISTINCT FROM {}").format(old, new)
