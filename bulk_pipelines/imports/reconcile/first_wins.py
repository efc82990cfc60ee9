"""Reconciling inserts and validations: of several records with one key, the first in the file counts.

Batches load in any order, so a later record may have been loaded before an earlier one came, which then waits aside.
The first record with a key owns it, whether it is loaded or not. That does not change when records move between the
table and the place aside, so each step below can be done alone, and done again.
"""

from uuid import UUID

from psycopg import errors, sql

from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.load import conflicts, refusals, tables
from bulk_pipelines.imports.plan.layout import Layout
from bulk_pipelines.imports.reconcile import late_rejects, objections, trial
from bulk_pipelines.imports.reconcile import set_aside as waiting
from bulk_pipelines.imports.reconcile.control import Control
from bulk_pipelines.resources.declaration import Key

AT_ONCE = 20_000


def reconcile_inserts(begin: Begin, context: ImportContext, layout: Layout, control: Control) -> None:
    for key in context.resource.keys:
        kept: set[UUID] = set()
        while displaced(begin, context, key, kept, control):
            pass
    while promoted(begin, context, control):
        pass
    with begin() as connection:
        for found in late_rejects.decisions(connection, context, layout):
            late_rejects.write_reasons(connection, context.job_id, found)
        if not control.more_may_come:
            waiting.clear(connection, context.resource, context.job_id)


def reconcile_validation(begin: Begin, context: ImportContext, layout: Layout, control: Control) -> None:
    with begin() as connection:
        objections.mark(connection, context)
        rejected = late_rejects.reject(connection, context, layout)
        trial.refuse(connection, context)
        rejected += late_rejects.reject(connection, context, layout)
        valid = waiting.clear(connection, context.resource, context.job_id)
        control.note(connection, Counts(waiting=-rejected - valid, rejected=rejected, valid=valid))


def displaced(begin: Begin, context: ImportContext, key: Key, kept: set[UUID], control: Control) -> int:
    """Take rows of this import whose key an earlier record of the file has out of the table, set them aside, and return
    how many were tried. Rows that others have changed or refer to by now are no longer the import's to take. The ids of
    rows that the table does not give back are added to `kept`, and are not tried again."""
    with begin() as connection:
        refusals.at_once(connection)
        late = late_rows(connection, context, key, kept)
        moved = conflicts.persistently(
            connection, (errors.DeadlockDetected,), lambda: set_aside(connection, context, key, late)
        )
        if moved < len(late):
            kept.update(still_there(connection, context, late))
        if moved:
            control.note(connection, Counts(loaded=-moved, rejected=moved))
        return len(late)


def late_rows(connection: Connection, context: ImportContext, key: Key, kept: set[UUID]) -> list[UUID]:
    query = sql.SQL(
        """
        WITH firsts AS (
            SELECT {value} AS value, min(a.import_line) AS line FROM {aside} a WHERE a.import_job = {job} GROUP BY 1
        )
        SELECT id FROM (
            SELECT (
                SELECT t.id FROM {table} t
                WHERE {key} = f.value AND t.import_line > f.line AND {conditions}
            ) AS id
            FROM firsts f
        ) found
        WHERE id IS NOT NULL AND id <> ALL (%s) LIMIT {most}
        """
    ).format(
        value=tables.key(key, "a"),
        aside=tables.aside(context.resource),
        job=context.job_id,
        table=tables.table(context.resource),
        key=tables.key(key, "t"),
        conditions=free(context),
        most=AT_ONCE,
    )
    with tables.planned(connection, "seqscan"):
        return [found for (found,) in connection.execute(query, [list(kept)], prepare=False)]


def free(context: ImportContext) -> sql.Composed:
    """Write the condition that a row of the table is still this import's to take."""
    return tables.listed([tables.own(context, "t"), *tables.unreferenced(context.resource, "t")], " AND ")


def set_aside(connection: Connection, context: ImportContext, key: Key, late: list[UUID]) -> int:
    """Move these rows out of the table, set them aside, and note them as rejects. Return how many rows the table gave
    back."""

    def statement(ids: sql.Composable) -> sql.Composed:
        return sql.SQL(
            """
            WITH gone AS (
                DELETE FROM {table} t WHERE t.id = ANY ({ids}) AND {conditions} RETURNING {columns}
            ), kept AS (
                INSERT INTO {aside} ({names}) SELECT * FROM gone RETURNING import_line
            )
            INSERT INTO rejected_row (job_id, line, reasons)
            SELECT {job}, import_line, jsonb_build_array(jsonb_build_object('code', {code}::text)) FROM kept
            """
        ).format(
            table=tables.table(context.resource),
            ids=ids,
            conditions=free(context),
            columns=tables.columns(context.resource, "t"),
            aside=tables.aside(context.resource),
            names=tables.columns(context.resource),
            job=context.job_id,
            code=key.code,
        )

    return refusals.write(connection, context, statement, "uuid", late).written


def still_there(connection: Connection, context: ImportContext, late: list[UUID]) -> list[UUID]:
    query = sql.SQL("SELECT t.id FROM {} t WHERE t.id = ANY (%s) AND {}").format(
        tables.table(context.resource), free(context)
    )
    return [found for (found,) in connection.execute(query, [late], prepare=False)]


def promoted(begin: Begin, context: ImportContext, control: Control) -> int:
    """Load records that own all their keys and that nothing stands against any more; return how many were tried. What
    the table says of a record that it refuses is noted with the record."""
    with begin() as connection:
        refusals.at_once(connection)
        lines = ready(connection, context)
        loaded = conflicts.persistently(
            connection, (errors.DeadlockDetected,), lambda: insert_lines(connection, context, lines)
        )
        if loaded < len(lines):
            # Either somebody took a key, which is seen when the reasons are written, or somebody removed a row that a
            # record refers to, which is noted here.
            objections.mark_missing(connection, context)
        if loaded:
            control.note(connection, Counts(loaded=loaded, rejected=-loaded))
        return len(lines)


def ready(connection: Connection, context: ImportContext) -> list[int]:
    resource = context.resource
    keys = late_rejects.decisive_keys(context)
    conditions: list[sql.Composable] = [sql.SQL("a.held = '{}' AND a.missing = '{}' AND a.refused IS NULL")]
    for number, key in enumerate(keys):
        conditions.append(sql.SQL("a.{} = a.import_line").format(sql.Identifier(f"owner{number}")))
        conditions.append(sql.SQL("{} IS NULL").format(tables.lookup(resource, key, "t", "a", sql.SQL("true"))))
    query = sql.SQL("SELECT a.import_line FROM ({}) a WHERE {} ORDER BY a.import_line LIMIT {}").format(
        late_rejects.with_owners(context, keys), tables.listed(conditions, " AND "), AT_ONCE
    )
    with tables.planned(connection, "seqscan"):
        return [line for (line,) in connection.execute(query, prepare=False)]


def insert_lines(connection: Connection, context: ImportContext, lines: list[int]) -> int:
    """Move these records into the table, and out of the rejects. Return how many the table took."""
    if not lines:
        return 0

    def statement(wanted: sql.Composable) -> sql.Composed:
        return sql.SQL(
            "INSERT INTO {table} ({names}) SELECT {names} FROM {aside}"
            " WHERE import_job = {job} AND import_line = ANY ({wanted}) ORDER BY id"
        ).format(
            table=tables.table(context.resource),
            names=tables.columns(context.resource),
            aside=tables.aside(context.resource),
            job=context.job_id,
            wanted=wanted,
        )

    result = refusals.write(connection, context, statement, "bigint", lines)
    taken = objections.outcome(connection, context, context.resource.id_key, lines, result)
    waiting.remove(connection, context, taken)
    connection.execute("DELETE FROM rejected_row WHERE job_id = %s AND line = ANY (%s)", [context.job_id, taken])
    return len(taken)
