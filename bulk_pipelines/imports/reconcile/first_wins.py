"""Reconciling inserts and validations: of several records with one key, the first in the file counts.

Batches load in any order, so a later record may have been loaded before an earlier one came, which then waits aside.
The first record with a key owns it, whether it is loaded or not. That does not change when records move between the
table and the place aside, so each step below can be done alone, and done again.
"""

from dataclasses import replace

from psycopg import errors, sql

from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.load import conflicts, refusals, same_table, staging, tables, writing
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.reconcile import late_rejects, objections, own_references, trial
from bulk_pipelines.imports.reconcile import set_aside as waiting
from bulk_pipelines.imports.reconcile.control import Control
from bulk_pipelines.resources import reflection
from bulk_pipelines.resources.declaration import Key

AT_ONCE = 20_000


def reconcile_inserts(begin: Begin, context: ImportContext, layout: Layout, control: Control) -> None:
    staging.index_ledger(begin, context)
    with begin() as connection:
        context = replace(context, resource=reflection.as_referred_to(connection, context.resource))
    for key in context.resource.keys:
        kept: set[int] = set()
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
        own_references.mark(connection, context)
        # Records that name each other are rejected together: what refuses one of them is a reason for the others.
        rejected = 0 if context.resource.own_references else late_rejects.reject(connection, context, layout)
        trial.refuse(connection, context)
        rejected += late_rejects.reject(connection, context, layout)
        valid = waiting.clear(connection, context.resource, context.job_id)
        control.note(connection, Counts(waiting=-rejected - valid, rejected=rejected, valid=valid))


def displaced(begin: Begin, context: ImportContext, key: Key, kept: set[int], control: Control) -> int:
    """Take rows of this import whose key an earlier record of the file has out of the table, set them aside, and return
    how many were tried. Rows that others have changed or refer to by now are no longer the import's to take. The lines
    of rows that the table does not give back are added to `kept`, and are not tried again."""
    with begin() as connection:
        refusals.at_once(connection)
        late = late_rows(connection, context, key, kept)
        wanted = own_references.with_followers(connection, context, same_as_late(key, "x"), late)
        moved = conflicts.persistently(
            connection, (errors.DeadlockDetected,), lambda: set_aside(connection, context, key, wanted)
        )
        if moved < len(late) or context.resource.own_references:
            kept.update(still_there(connection, context, key))
        if moved:
            objections.forget_refusals(connection, context)
            control.note(connection, Counts(loaded=-moved, rejected=moved))
            same_table.check(connection, context)
        return len(late)


def late_rows(connection: Connection, context: ImportContext, key: Key, kept: set[int]) -> list[int]:
    """Put the keys of rows that came too late into a temporary table, with the lines of these rows, and return the
    lines."""
    values = [sql.Identifier(f"value{number}") for number in range(len(key.columns))]
    parts = zip(tables.key_parts(key, "a"), values, strict=True)
    query = sql.SQL(
        """
        CREATE TEMP TABLE late ON COMMIT DROP AS
        WITH firsts AS (
            SELECT {named}, min(a.import_line) AS first_line FROM {aside} a
            WHERE a.import_job = {job} AND {whole} GROUP BY {key}
        )
        SELECT import_line, {values} FROM (
            SELECT (SELECT {line} FROM {table} t WHERE {same} AND {conditions} LIMIT 1) AS import_line, f.*
            FROM firsts f
        ) found
        WHERE import_line > first_line AND import_line <> ALL ({kept}::bigint[]) LIMIT {most}
        """
    ).format(
        named=tables.listed([sql.SQL("{} AS {}").format(part, value) for part, value in parts]),
        aside=tables.aside(context),
        job=context.job_id,
        whole=tables.is_whole(key, "a"),
        key=tables.key(key, "a"),
        values=tables.listed(values),
        line=tables.own_line(context, key, "t"),
        table=tables.table(context.resource),
        same=same_as_late(key, "f"),
        conditions=free(context, key),
        kept=sorted(kept),
        most=AT_ONCE,
    )
    with tables.planned(connection, "seqscan"):
        connection.execute(query, prepare=False)
    return [line for (line,) in connection.execute("SELECT import_line FROM pg_temp.late")]


def same_as_late(key: Key, alias: str) -> sql.Composed:
    """Write the condition that a row `t` of the table has the key of a row that came too late."""
    parts = enumerate(tables.key_parts(key, "t"))
    return tables.listed(
        [sql.SQL("{} = {}").format(part, sql.Identifier(alias, f"value{number}")) for number, part in parts], " AND "
    )


def free(context: ImportContext, key: Key) -> sql.Composed:
    """Write the condition that a row of the table is still this import's to take."""
    return tables.listed([tables.own(context, key, "t"), *tables.unreferenced(context.resource, "t")], " AND ")


def set_aside(connection: Connection, context: ImportContext, key: Key, late: list[int]) -> int:
    """Move these rows out of the table, set them aside, and note them as rejects. Return how many rows the table gave
    back."""
    resource, own = context.resource, bool(context.resource.own_references)

    def statement(lines: sql.Composable) -> sql.Composed:
        return sql.SQL(
            """
            WITH gone AS (
                DELETE FROM {table} t USING {late} x
                WHERE x.import_line = ANY ({lines}) AND {same} AND {conditions}
                RETURNING {columns}, {job}::bigint AS import_job, x.import_line
            ), kept AS (
                INSERT INTO {aside} ({names}, import_job, import_line) SELECT * FROM gone RETURNING import_line
            )
            INSERT INTO {rejects} (job_id, line, reasons)
            SELECT {job}, import_line, jsonb_build_array(jsonb_build_object('code', {code}::text)) FROM kept
            """
        ).format(
            table=tables.table(resource),
            late=own_references.FOLLOWERS if own else sql.Identifier("pg_temp", "late"),
            lines=lines,
            same=sql.SQL("t.ctid = x.place") if own else same_as_late(key, "x"),
            conditions=own_references.free(context) if own else free(context, key),
            columns=tables.listed(sql.Identifier("t", name) for name in resource.column_names),
            aside=tables.aside(context),
            rejects=namespaces.own("rejected_row"),
            names=tables.listed(map(sql.Identifier, resource.column_names)),
            job=context.job_id,
            code=key.code,
        )

    return refusals.write(connection, context, statement, late).written


def still_there(connection: Connection, context: ImportContext, key: Key) -> list[int]:
    query = sql.SQL(
        "SELECT x.import_line FROM pg_temp.late x WHERE (SELECT true FROM {} t WHERE {} AND {} LIMIT 1)"
    ).format(tables.table(context.resource), same_as_late(key, "x"), free(context, key))
    return [found for (found,) in connection.execute(query, prepare=False)]


def promoted(begin: Begin, context: ImportContext, control: Control) -> int:
    """Load records that own all their keys and that nothing stands against any more; return how many were tried. What
    the table says of a record that it refuses is noted with the record."""
    with begin() as connection:
        refusals.at_once(connection)
        own_references.mark(connection, context)
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
            same_table.check(connection, context)
        return len(lines)


def ready(connection: Connection, context: ImportContext) -> list[int]:
    resource = context.resource
    keys = late_rejects.decisive_keys(context)
    conditions: list[sql.Composable] = [
        sql.SQL("a.import_held = '{}' AND a.import_missing = '{}' AND a.import_refused IS NULL")
    ]
    for number, key in enumerate(keys):
        conditions.append(sql.SQL("a.{} = a.import_line").format(late_rejects.owner(number)))
        conditions.append(sql.SQL("{} IS NULL").format(tables.lookup(resource, key, "t", "a", sql.SQL("true"))))
    query = sql.SQL("SELECT a.import_line FROM ({}) a WHERE {} ORDER BY a.import_line LIMIT {}").format(
        late_rejects.with_owners(context, keys),
        tables.listed(conditions, " AND "),
        own_references.together(resource, AT_ONCE),
    )
    with tables.planned(connection, "seqscan"):
        return [line for (line,) in connection.execute(query, prepare=False)]


def insert_lines(connection: Connection, context: ImportContext, lines: list[int]) -> int:
    """Move these records into the table, and out of the rejects. Return how many the table took."""
    if not lines:
        return 0

    def statement(wanted: sql.Composable) -> sql.Composed:
        condition = sql.SQL("import_job = {} AND import_line = ANY ({})").format(context.job_id, wanted)
        order = tables.listed(map(sql.Identifier, context.resource.id_columns or ("import_line",)))
        return writing.noted(context, tables.aside(context), condition, sql.SQL("ORDER BY {}").format(order))

    exact = not context.resource.provenance
    result = refusals.write(connection, context, statement, lines, exact=exact)
    again = own_references.put_off(context.resource, result)
    taken = objections.outcome(connection, context, [line for line in lines if line not in again], result)
    waiting.remove(connection, context, taken)
    connection.execute("DELETE FROM rejected_row WHERE job_id = %s AND line = ANY (%s)", [context.job_id, taken])
    return len(taken)
