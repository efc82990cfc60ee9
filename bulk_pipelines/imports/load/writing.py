"""Writing a batch's rows to a table by COPY, or in small pieces down to single rows if the table refuses the COPY."""

import psycopg
from psycopg import sql

from bulk_pipelines.columns import binary_copy
from bulk_pipelines.columns.binary_copy import Encoded
from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import refusals, tables
from bulk_pipelines.imports.load.left_out import left_out
from bulk_pipelines.imports.load.refusals import Attempt, Refusal
from bulk_pipelines.imports.validate import rows
from bulk_pipelines.imports.validate.validation import Validated

UNORDERED = sql.SQL("")
TRIED = sql.Identifier("pg_temp", "tried")


def write(connection: Connection, context: ImportContext, validated: Validated, batch: Encoded) -> dict[int, Refusal]:
    """Write these rows of a batch, and return those that the table refused or left out, by their lines."""
    lines = validated.lines[batch.order]
    if not len(lines):
        return {}
    result = Attempt()
    try:
        with namespaces.theirs(connection) as made:
            result.written = copied(connection, context, validated, batch)
            if result.written < len(lines) and not context.resource.provenance:
                raise psycopg.Rollback(made)
        if result.written == len(lines):
            return {}
        lay_out(connection, context, validated, batch)
        is_refused = not context.resource.provenance
    except psycopg.Error as error:
        refusals.judge(connection, context, error)
        lay_out(connection, context, validated, batch)
        is_refused = True
    if is_refused:
        result = row_by_row(connection, context, lines.tolist())
    refused = result.refused
    if result.written + len(refused) < len(lines):
        doubtful = [line for line in lines.tolist() if line not in refused]
        key = next(iter(context.resource.keys), None)
        absent = left_out(connection, context, TRIED, tables.table(context.resource), doubtful, key, result.written)
        refused |= dict.fromkeys(absent, refusals.SILENT)
    connection.execute(sql.SQL("DROP TABLE {}").format(TRIED))
    return refused


def copied(connection: Connection, context: ImportContext, validated: Validated, batch: Encoded) -> int:
    """Copy rows into the table, and note them in the ledger if the import keeps one. Return how many the table took."""
    written = binary_copy.copy(connection, tables.table(context.resource), batch)
    if validated.ledger is not None:
        binary_copy.copy(connection, tables.ledger(context), rows.same_rows(validated.ledger, batch))
    return written


def lay_out(connection: Connection, context: ImportContext, validated: Validated, batch: Encoded) -> None:
    """Put the rows into a temporary table that has their lines as its primary key."""
    resource = context.resource
    with namespaces.theirs(connection):
        connection.execute(
            sql.SQL(
                "CREATE TEMP TABLE tried ON COMMIT DROP AS SELECT {}, 0::bigint AS import_job, 0::bigint AS import_line"
                " FROM {} WITH NO DATA"
            ).format(tables.plain(resource, resource.column_names), tables.table(resource))
        )
    columns = rows.with_origin(context, validated.good.take(batch.order), validated.lines[batch.order])
    binary_copy.copy(connection, TRIED, rows.encoded(resource, columns))
    connection.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (import_line)").format(TRIED))


def row_by_row(connection: Connection, context: ImportContext, lines: list[int]) -> Attempt:
    statement = noted(context, TRIED, sql.SQL("import_line = ANY ({})").format(refusals.CHUNK))
    return refusals.attempt(connection, statement, lines, exact=not context.resource.provenance)


def noted(
    context: ImportContext, origin: sql.Composable, condition: sql.Composable, order: sql.Composable = UNORDERED
) -> sql.Composed:
    """Write the statement that inserts rows of another table into the table of the import, and notes them in the ledger
    if the import keeps one."""
    resource = context.resource
    insert = sql.SQL("INSERT INTO {} ({names}) SELECT {names} FROM {} WHERE {} {}").format(
        tables.table(resource), origin, condition, order, names=tables.columns(resource)
    )
    if not tables.keeps_ledger(context):
        return insert
    return sql.SQL("WITH noted AS (INSERT INTO {} ({names}) SELECT {names} FROM {} WHERE {}) {}").format(
        tables.ledger(context),
        origin,
        condition,
        insert,
        names=tables.listed(map(sql.Identifier, [*tables.ledger_columns(resource), "import_line"])),
    )
