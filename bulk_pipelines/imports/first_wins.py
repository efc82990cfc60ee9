"""Inserting, and the validation of it: of the records of one key, the first in the file counts.

Batches load in any order, so a later record may have been loaded before an earlier one came, which then waits aside.
An owner of a key is its first record, loaded or not; that does not change when records move between the table and the
place aside, which is why each step below can be done alone and again.
"""

from typing import Any

import psycopg
from psycopg import errors, sql

from bulk_pipelines.imports import conflicts, decisions, marks, tables, trial, waiting
from bulk_pipelines.imports.control import Begin, Control
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.layout import Layout
from bulk_pipelines.imports.terms import Terms
from bulk_pipelines.resources.declaration import Key

Connection = psycopg.Connection[Any]

AT_ONCE = 20_000


def settle_inserts(begin: Begin, terms: Terms, layout: Layout, control: Control) -> None:
    for key in terms.resource.keys:
        while displaced(begin, terms, key, control):
            pass
    while promoted(begin, terms, control):
        pass
    with begin() as connection:
        for found in decisions.decisions(connection, terms, layout):
            decisions.write_reasons(connection, terms.job_id, found)
        if not control.more_may_come:
            waiting.clear(connection, terms.resource, terms.job_id)


def settle_validation(begin: Begin, terms: Terms, layout: Layout, control: Control) -> None:
    with begin() as connection:
        marks.mark(connection, terms)
        rejected = decisions.reject(connection, terms, layout)
        trial.refuse(connection, terms)
        rejected += decisions.reject(connection, terms, layout)
        valid = waiting.clear(connection, terms.resource, terms.job_id)
        control.note(connection, Counts(waiting=-rejected - valid, rejected=rejected, valid=valid))


def displaced(begin: Begin, terms: Terms, key: Key, control: Control) -> int:
    """Takes back rows of this import whose key an earlier record of the file has, and sets them aside. Rows that others
    changed or refer to meanwhile are no longer ours to take."""
    resource = terms.resource
    statement = sql.SQL(
        """
        WITH firsts AS (
            SELECT {value} AS value, min(a.import_line) AS line FROM {aside} a WHERE a.import_job = {job} GROUP BY 1
        ), late AS (
            SELECT id FROM (
                SELECT (
                    SELECT t.id FROM {table} t
                    WHERE {key} = f.value AND t.import_line > f.line AND {conditions}
                ) AS id
                FROM firsts f
            ) found
            WHERE id IS NOT NULL LIMIT {most}
        ), gone AS (
            DELETE FROM {table} t WHERE t.id = ANY(ARRAY(SELECT id FROM late)) RETURNING {columns}
        ), kept AS (
            INSERT INTO {aside} ({names}) SELECT * FROM gone RETURNING import_line
        )
        INSERT INTO rejected_row (job_id, line, reasons)
        SELECT {job}, import_line, jsonb_build_array(jsonb_build_object('code', {code}::text)) FROM kept
        """
    ).format(
        value=tables.key(key, "a"),
        aside=tables.aside(resource),
        job=terms.job_id,
        table=tables.table(resource),
        key=tables.key(key, "t"),
        conditions=tables.listed([tables.own(terms, "t"), *tables.unreferenced(resource, "t")], " AND "),
        most=AT_ONCE,
        columns=tables.columns(resource, "t"),
        names=tables.columns(resource),
        code=key.code,
    )
    with begin() as connection, conflicts.planned(connection, "seqscan"):
        moved = conflicts.persistently(
            connection, is_new_reference, lambda: connection.execute(statement, prepare=False).rowcount
        )
        if moved:
            control.note(connection, Counts(loaded=-moved, rejected=moved))
        return moved


def is_new_reference(error: psycopg.Error) -> bool:
    """Whether somebody has just begun to refer to a row: the next attempt leaves it alone."""
    return isinstance(error, errors.ForeignKeyViolation | errors.DeadlockDetected)


def promoted(begin: Begin, terms: Terms, control: Control) -> int:
    """Loads records that own all their keys and that nothing stands against any more; how many were looked at."""
    with begin() as connection:
        lines = ready(connection, terms)
        try:
            with connection.transaction():
                loaded = insert_lines(connection, terms, lines)
        except conflicts.PASSING:
            # Somebody took a key, which the next look sees, or removed a row that is referred to.
            loaded = 0
            marks.mark_missing(connection, terms)
        if loaded:
            control.note(connection, Counts(loaded=loaded, rejected=-loaded))
        return len(lines)


def ready(connection: Connection, terms: Terms) -> list[int]:
    resource = terms.resource
    keys = decisions.decisive_keys(terms)
    conditions: list[sql.Composable] = [sql.SQL("a.held = '{}' AND a.missing = '{}' AND a.refused IS NULL")]
    for number, key in enumerate(keys):
        conditions.append(sql.SQL("a.{} = a.import_line").format(sql.Identifier(f"owner{number}")))
        conditions.append(sql.SQL("{} IS NULL").format(tables.lookup(resource, key, "t", "a", sql.SQL("true"))))
    query = sql.SQL("SELECT a.import_line FROM ({}) a WHERE {} ORDER BY a.import_line LIMIT {}").format(
        decisions.with_owners(terms, keys), tables.listed(conditions, " AND "), AT_ONCE
    )
    with conflicts.planned(connection, "seqscan"):
        return [line for (line,) in connection.execute(query, prepare=False)]


def insert_lines(connection: Connection, terms: Terms, lines: list[int]) -> int:
    """Moves these records into the table, and out of the rejects; how many it took. What it refuses for a reason that
    nobody declared is noted with the record."""
    if not lines:
        return 0
    resource = terms.resource
    statement = sql.SQL(
        """
        WITH gone AS (
            DELETE FROM {aside} WHERE import_job = {job} AND import_line = ANY(%(lines)s) RETURNING {names}
        ), cleared AS (
            DELETE FROM rejected_row WHERE job_id = {job} AND line = ANY(%(lines)s)
        )
        INSERT INTO {table} ({names}) SELECT * FROM gone ORDER BY id
        """
    ).format(
        aside=tables.aside(resource),
        job=terms.job_id,
        table=tables.table(resource),
        names=tables.columns(resource),
    )
    try:
        with connection.transaction():
            return connection.execute(statement, {"lines": lines}).rowcount
    except conflicts.FAULTS as error:
        if conflicts.is_passing(resource, error):
            raise
        if len(lines) == 1:
            marks.refuse(connection, terms, lines[0], error)
            return 0
        middle = len(lines) // 2
        return insert_lines(connection, terms, lines[:middle]) + insert_lines(connection, terms, lines[middle:])
