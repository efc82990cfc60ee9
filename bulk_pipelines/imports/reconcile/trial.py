"""Trying what inserting would do: the records are inserted, and the transaction is taken back.

Where only types, NOT NULL and CHECKs can object, an empty copy of the table is enough, and the table itself is not
touched. If the table has anything else that can object, the trial uses the table itself: because of its triggers, its
row-level security, its undeclared indexes and references.
"""

from psycopg import sql

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import refusals, tables
from bulk_pipelines.imports.load.refusals import Attempt, Refusal
from bulk_pipelines.imports.reconcile import objections, own_references, set_aside

COPY = sql.Identifier("pg_temp", "trial")


def refuse(connection: Connection, context: ImportContext) -> None:
    """Note with each record that waits, and that the table would refuse, what the table says of it."""
    if context.resource.own_references:
        refuse_together(connection, context)
        return
    query = sql.SQL("SELECT import_line FROM {} WHERE import_job = {} AND import_line BETWEEN %s AND %s").format(
        tables.aside(context), context.job_id
    )
    for first, last in set_aside.windows(connection, context):
        lines = [line for (line,) in connection.execute(query, [first, last])]
        objections.refuse(connection, context, refused(connection, context, lines))


def refuse_together(connection: Connection, context: ImportContext) -> None:
    """Do the same with records that may name each other: all that are good so far are tried together, until none is
    refused any more."""
    query = sql.SQL("SELECT import_line FROM ({}) good").format(own_references.candidates(context))
    found = True
    while found:
        lines = [line for (line,) in connection.execute(query, prepare=False)]
        found = bool(result := refused(connection, context, lines))
        objections.refuse(connection, context, result)
        own_references.mark(connection, context)


def refused(connection: Connection, context: ImportContext, lines: list[int]) -> dict[int, Refusal]:
    """Return those of these records that the table would refuse, by their lines."""
    with connection.transaction(force_rollback=True):
        refusals.at_once(connection)
        target = target_of(connection, context)

        def statement(wanted: sql.Composable) -> sql.Composed:
            return sql.SQL(
                "INSERT INTO {} ({names}) SELECT {names} FROM {} WHERE import_job = {} AND import_line = ANY ({})"
            ).format(target, tables.aside(context), context.job_id, wanted, names=tables.columns(context.resource))

        exact = not context.resource.provenance
        result = refusals.write(connection, context, statement, lines, exact=exact)
        # What was written is taken back. So only what else was refused is a reason to try again.
        again = own_references.put_off(context.resource, Attempt(0, result.refused))
        return objections.not_taken(connection, context, target, [line for line in lines if line not in again], result)


def target_of(connection: Connection, context: ImportContext) -> sql.Composable:
    values = {"table": tables.quoted(context.resource, connection), "declared": tables.declared(context.resource)}
    row = connection.execute(queries.text("imports", "may_object"), values).fetchone()
    if row and row[0]:
        return tables.table(context.resource)
    connection.execute(
        sql.SQL(
            "CREATE TEMP TABLE trial"
            " (LIKE {} INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING IDENTITY)"
        ).format(tables.table(context.resource))
    )
    return COPY
