"""The objections of the table to records that wait aside, noted with each of these."""

from collections.abc import Mapping

from psycopg import sql

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import refusals, tables
from bulk_pipelines.imports.load.left_out import left_out
from bulk_pipelines.imports.load.refusals import Attempt, Refusal
from bulk_pipelines.imports.reconcile import set_aside
from bulk_pipelines.resources.declaration import Key, Reference


def mark(connection: Connection, context: ImportContext) -> None:
    """Note with each record that waits which of its keys rows of the table hold, and which of its references lead
    nowhere."""
    with tables.planned(connection, "seqscan"):
        for first, last in set_aside.windows(connection, context):
            for key in context.resource.keys:
                if key != context.match_on:
                    connection.execute(held(context, key), [first, last], prepare=False)
    mark_missing(connection, context)


def mark_missing(connection: Connection, context: ImportContext) -> None:
    """Note with each record which of its references to other tables lead nowhere. (`own_references` has the rest.)"""
    others = [each for each in context.resource.references if each not in context.resource.own_references]
    with tables.planned(connection, "seqscan"):
        for first, last in set_aside.windows(connection, context):
            for reference in others:
                connection.execute(missing(context, reference), [first, last], prepare=False)


def outcome(
    connection: Connection, context: ImportContext, lines: list[int], result: Attempt, key: Key | None = None
) -> list[int]:
    """Return the lines of those of these records that are in the table now; rows are found by this key, or the first
    one. Note with each of the others why it is not there."""
    refused = not_taken(connection, context, tables.table(context.resource), lines, result, key)
    refuse(connection, context, refused)
    return [line for line in lines if line not in refused]


def not_taken(
    connection: Connection,
    context: ImportContext,
    target: sql.Composable,
    lines: list[int],
    result: Attempt,
    key: Key | None = None,
) -> dict[int, Refusal]:
    """Return the records that the table refused, by their lines, and those that are not in it though it said nothing
    of them."""
    if result.written + len(result.refused) == len(lines):
        return result.refused
    assert context.resource.provenance, "without provenance, every row that is not written is refused"
    by = key or next(iter(context.resource.keys), None)
    absent = left_out(connection, context, tables.aside(context), target, lines, by, result.written)
    return dict.fromkeys(absent, refusals.SILENT) | result.refused


def refuse(connection: Connection, context: ImportContext, refused: Mapping[int, Refusal]) -> None:
    """Note with records, by their lines, what the table said of them."""
    if not refused:
        return
    statement = sql.SQL(
        "UPDATE {} a SET import_refused = found.message FROM unnest(%s::bigint[], %s::text[]) AS found (line, message)"
        " WHERE a.import_job = {} AND a.import_line = found.line"
    ).format(tables.aside(context), context.job_id)
    connection.execute(statement, [list(refused), [each.said for each in refused.values()]])


def forget_refusals(connection: Connection, context: ImportContext) -> None:
    """Let the table be asked again about the records that it refused: maybe for the sake of rows that it gave back."""
    statement = sql.SQL("UPDATE {} SET import_refused = NULL WHERE import_job = {} AND import_refused IS NOT NULL")
    connection.execute(statement.format(tables.aside(context), context.job_id))


def refused(connection: Connection, context: ImportContext) -> dict[int, Refusal]:
    """Return what the table said of the records that wait, by their lines."""
    query = sql.SQL("SELECT import_line, import_refused FROM {} WHERE import_job = {} AND import_refused IS NOT NULL")
    found = connection.execute(query.format(tables.aside(context), context.job_id))
    return {line: Refusal(message) for line, message in found}


def held(context: ImportContext, key: Key) -> sql.Composed:
    holder = tables.lookup(context.resource, key, "t", "a", sql.SQL("true"))
    if context.match_on and key == context.resource.keys[0]:
        # A row keeps its id, whatever the record about it says, so only the id of a record about a new row counts.
        about = tables.lookup(context.resource, context.match_on, "m", "a", sql.SQL("true"))
        condition = sql.SQL("{} AND {} IS NULL").format(holder, about)
    elif context.match_on:
        # The row that the record is about may hold the key.
        other = sql.SQL("NOT {}").format(tables.same(context.match_on, "t", "a"))
        condition = tables.lookup(context.resource, key, "t", "a", other)
    else:
        condition = holder
    return note(context, sql.SQL("import_held"), key.name, condition)


def missing(context: ImportContext, reference: Reference) -> sql.Composed:
    return note(context, sql.SQL("import_missing"), reference.name, tables.leads_nowhere(reference, "a"))


def note(context: ImportContext, place: sql.SQL, name: str, condition: sql.Composed) -> sql.Composed:
    """Write the statement that adds a name to a list of records: of those between two lines that fulfil the condition
    and do not have the name in this list yet."""
    return sql.SQL(
        "UPDATE {aside} a SET {place} = array_append(a.{place}, {name})"
        " WHERE a.import_job = {job} AND a.import_line BETWEEN %s AND %s"
        " AND NOT {name} = ANY(a.{place}) AND {condition}"
    ).format(aside=tables.aside(context), place=place, name=name, job=context.job_id, condition=condition)
