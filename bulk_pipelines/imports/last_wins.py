"""Upserting: of the records about one row, the last in the file counts.

Whether a record may have another key, such as an address, is decided by the table as it is before the first change, and
by the file as a whole: no record gives way to one that is rejected, and none takes what a row of the table still holds,
even when the same file would change that row.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from bulk_pipelines.imports import conflicts, decisions, marks, tables, waiting
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.layout import Layout
from bulk_pipelines.imports.terms import Terms
from bulk_pipelines.resources.declaration import Column, Fill, Key

Connection = psycopg.Connection[Any]
Begin = Callable[[], AbstractContextManager[Connection]]
Note = Callable[[Connection, Counts], None]

AT_ONCE = 20_000


def settle_upserts(begin: Begin, terms: Terms, layout: Layout, note: Note) -> None:
    assert terms.match_on is not None
    left = True
    while left:
        with begin() as connection:
            resolve(connection, terms, terms.match_on, layout, note)
        while merged(begin, terms, terms.match_on, layout, note):
            pass
        with begin() as connection:
            left = waiting.is_any(connection, terms)


def resolve(connection: Connection, terms: Terms, match_on: Key, layout: Layout, note: Note) -> None:
    """Drops what a later record supersedes, and rejects what cannot be merged. What is left fits, in any order."""
    superseded = connection.execute(
        sql.SQL(
            """
            DELETE FROM {aside} WHERE import_job = {job} AND import_line = ANY(ARRAY(
                SELECT import_line FROM (
                    SELECT import_line, max(import_line) OVER (PARTITION BY {key}) AS last
                    FROM {aside} a WHERE import_job = {job}
                ) found WHERE import_line < last
            ))
            """
        ).format(aside=tables.aside(terms.resource), key=tables.key(match_on, "a"), job=terms.job_id),
        prepare=False,
    ).rowcount
    marks.mark(connection, terms)
    rejected = 0
    for found in decisions.decisions(connection, terms, layout):
        decisions.write_rejects(connection, terms.job_id, found)
        rejected += waiting.remove(connection, terms, [line for line, _ in found])
    if superseded or rejected:
        note(connection, Counts(waiting=-superseded - rejected, superseded=superseded, rejected=rejected))


def merged(begin: Begin, terms: Terms, match_on: Key, layout: Layout, note: Note) -> bool:
    """Merges the next records; false when there are none, or when others changed the table so that it has to be
    resolved again."""
    with begin() as connection:
        lines = next_lines(connection, terms)
        try:
            with connection.transaction():
                loaded = merge_lines(connection, terms, match_on, layout, lines)
        except conflicts.PASSING:
            return False
        if loaded:
            note(connection, Counts(waiting=-loaded, loaded=loaded))
        return bool(lines)


def next_lines(connection: Connection, terms: Terms) -> list[int]:
    query = sql.SQL(
        "SELECT import_line FROM {} WHERE import_job = {} AND refused IS NULL ORDER BY import_line LIMIT {}"
    )
    return [line for (line,) in connection.execute(query.format(tables.aside(terms.resource), terms.job_id, AT_ONCE))]


def merge_lines(connection: Connection, terms: Terms, match_on: Key, layout: Layout, lines: list[int]) -> int:
    """Merges these records; how many the table took. What it refuses for a reason that nobody declared is noted with
    the record."""
    if not lines:
        return 0
    try:
        with connection.transaction():
            values = {"lines": lines, "targets": targets(connection, terms, match_on, lines)}
            # Both sides are found by their keys and are no larger than what is merged: a hash join is always good.
            with conflicts.planned(connection, "seqscan", "nestloop", "mergejoin"):
                count = connection.execute(merge(terms, match_on, layout), values, prepare=False).rowcount
            waiting.remove(connection, terms, lines)
            return count
    except conflicts.FAULTS as error:
        if conflicts.is_passing(terms.resource, error):
            raise
        if len(lines) == 1:
            marks.refuse(connection, terms, lines[0], error)
            return 0
        middle = len(lines) // 2
        return sum(merge_lines(connection, terms, match_on, layout, part) for part in (lines[:middle], lines[middle:]))


def targets(connection: Connection, terms: Terms, match_on: Key, lines: list[int]) -> list[UUID]:
    """The ids of the rows that these records are about."""
    query = sql.SQL("SELECT {} FROM {} a WHERE a.import_job = {} AND a.import_line = ANY(%s)").format(
        tables.lookup(terms.resource, match_on, "t", "a", sql.SQL("t.id")), tables.aside(terms.resource), terms.job_id
    )
    with conflicts.planned(connection, "seqscan"):
        return [found for (found,) in connection.execute(query, [lines], prepare=False) if found is not None]


def merge(terms: Terms, match_on: Key, layout: Layout) -> sql.Composed:
    resource = terms.resource
    kept = [column for column in resource.columns if is_changed(column, resource.id_key, layout)]
    changes = [sql.SQL("{} = {}").format(sql.Identifier(column.name), changed(column, terms)) for column in kept]
    values = [in_new_row(column, terms) for column in resource.columns]
    return sql.SQL(
        """
        MERGE INTO {table} t
        USING (SELECT * FROM {aside} WHERE import_job = {job} AND import_line = ANY(%(lines)s)) a
        ON {same} AND t.id = ANY(%(targets)s)
        WHEN MATCHED THEN UPDATE SET {changes}
        WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values}, a.import_job, a.import_line)
        """
    ).format(
        table=tables.table(resource),
        aside=tables.aside(resource),
        job=terms.job_id,
        same=tables.same(match_on, "t", "a"),
        changes=tables.listed(
            [
                *changes,
                sql.SQL("import_job = a.import_job, import_line = a.import_line, import_revised = false"),
            ]
        ),
        names=tables.columns(resource),
        values=tables.listed(values),
    )


def is_changed(column: Column, id_key: Key, layout: Layout) -> bool:
    """A row keeps its id, and what the file has no column for."""
    return column.name != id_key.column and (column.name in layout.columns or column.fill is Fill.CHANGE_TIME)


def changed(column: Column, terms: Terms) -> sql.Composed:
    """The new value in a row that exists: where something would stand in for a missing one, the row's own does."""
    given = sql.SQL("{}").format(sql.Identifier("a", column.name))
    if column.fill is None:
        return given
    if column.fill is Fill.CHANGE_TIME:
        return in_new_row(column, terms)
    return sql.SQL("coalesce({}, {})").format(given, sql.Identifier("t", column.name))


def in_new_row(column: Column, terms: Terms) -> sql.Composed:
    given = sql.SQL("{}").format(sql.Identifier("a", column.name))
    match column.fill:
        case Fill.IMPORT_TIME | Fill.CHANGE_TIME:
            return sql.SQL("coalesce({}, {})").format(given, terms.submitted_at)
        case Fill.TRUE:
            return sql.SQL("coalesce({}, true)").format(given)
        case Fill.EMPTY_LIST:
            return sql.SQL("coalesce({}, '{{}}')").format(given)
        case Fill.NEW_ID | None:
            return given
