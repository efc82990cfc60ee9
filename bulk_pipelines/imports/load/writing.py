"""Writing encoded rows to a table by COPY, or in small pieces down to single rows if the table refuses the COPY."""

import psycopg
from psycopg import sql

from bulk_pipelines.columns import binary_copy
from bulk_pipelines.columns.arrow import Numbers
from bulk_pipelines.columns.binary_copy import Encoded
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import refusals, tables
from bulk_pipelines.imports.load.refusals import Attempt, Refusal

TRIED = sql.Identifier("pg_temp", "tried")


def write(
    connection: Connection, context: ImportContext, target: sql.Composable, rows: Encoded, lines: Numbers
) -> dict[int, Refusal]:
    """Write these rows, and return those that the table refused or left out, by their lines."""
    if not len(lines):
        return {}
    try:
        with refusals.savepoint(connection):
            result = Attempt(binary_copy.copy(connection, target, rows))
        if result.written == len(lines):
            return {}
        lay_out(connection, context, rows)
    except psycopg.Error as error:
        refusals.judge(connection, context, error)
        lay_out(connection, context, rows)
        result = row_by_row(connection, context, target, lines)
    refused = result.refused
    if result.written + len(refused) < len(lines):
        refused |= {line: refusals.SILENT for line in left_out(connection, context, target) if line not in refused}
    connection.execute(sql.SQL("DROP TABLE {}").format(TRIED))
    return refused


def lay_out(connection: Connection, context: ImportContext, rows: Encoded) -> None:
    """Put the rows into a temporary table that has their lines as its primary key."""
    connection.execute(
        sql.SQL(
            "CREATE TEMP TABLE tried ON COMMIT DROP AS SELECT {}, import_job, import_line FROM {} WITH NO DATA"
        ).format(tables.plain(context.resource, context.resource.column_names), tables.table(context.resource))
    )
    binary_copy.copy(connection, TRIED, rows)
    connection.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (import_line)").format(TRIED))


def row_by_row(connection: Connection, context: ImportContext, target: sql.Composable, lines: Numbers) -> Attempt:
    names = tables.columns(context.resource)
    statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE import_line = ANY ({})").format(
        target, names, names, TRIED, refusals.CHUNK
    )
    return refusals.attempt(connection, statement, "bigint", lines.tolist())


def left_out(connection: Connection, context: ImportContext, target: sql.Composable) -> list[int]:
    """Return the lines of the rows that are not in the table; it may have left some out without refusing them."""
    key = context.resource.id_key
    query = sql.SQL(
        "SELECT s.import_line FROM {} s WHERE (SELECT true FROM {} t WHERE {} AND t.import_job = s.import_job"
        " AND t.import_line = s.import_line LIMIT 1) IS NULL"
    ).format(TRIED, target, tables.same(key, "t", "s"))
    with tables.planned(connection, "seqscan"):
        return [line for (line,) in connection.execute(query, prepare=False)]
