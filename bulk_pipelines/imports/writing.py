"""Writing encoded rows to a table: by COPY, and row by row when the table refuses the COPY."""

from typing import Any

import psycopg
from psycopg import sql

from bulk_pipelines.imports import binary_copy, refusals, tables
from bulk_pipelines.imports.arrow import Numbers
from bulk_pipelines.imports.binary_copy import Encoded
from bulk_pipelines.imports.refusals import Attempt, Refusal
from bulk_pipelines.imports.terms import Terms

Connection = psycopg.Connection[Any]

TRIED = sql.Identifier("pg_temp", "tried")


def write(
    connection: Connection, terms: Terms, target: sql.Composable, rows: Encoded, lines: Numbers
) -> dict[int, Refusal]:
    """Writes these rows; those of them that are refused, by their lines."""
    if not len(lines):
        return {}
    try:
        with connection.transaction():
            result = Attempt(binary_copy.copy(connection, target, rows))
        if result.written == len(lines):
            return {}
        lay_out(connection, terms, rows)
    except psycopg.Error as error:
        refusals.judge(connection, terms, error)
        lay_out(connection, terms, rows)
        result = row_by_row(connection, terms, target, lines)
    refused = result.refused
    if result.written + len(refused) < len(lines):
        refused |= {line: refusals.SILENT for line in left_out(connection, terms, target) if line not in refused}
    connection.execute(sql.SQL("DROP TABLE {}").format(TRIED))
    return refused


def lay_out(connection: Connection, terms: Terms, rows: Encoded) -> None:
    """Puts the rows into a temporary table, by their lines."""
    connection.execute(
        sql.SQL(
            "CREATE TEMP TABLE tried ON COMMIT DROP AS SELECT {}, import_job, import_line FROM {} WITH NO DATA"
        ).format(tables.plain(terms.resource, terms.resource.column_names), tables.table(terms.resource))
    )
    binary_copy.copy(connection, TRIED, rows)
    connection.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (import_line)").format(TRIED))


def row_by_row(connection: Connection, terms: Terms, target: sql.Composable, lines: Numbers) -> Attempt:
    names = tables.columns(terms.resource)
    statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE import_line = ANY ({})").format(
        target, names, names, TRIED, refusals.CHUNK
    )
    return refusals.attempt(connection, statement, "bigint", lines.tolist())


def left_out(connection: Connection, terms: Terms, target: sql.Composable) -> list[int]:
    """The lines that are not in the table, though it did not refuse them."""
    key = terms.resource.id_key
    query = sql.SQL(
        "SELECT s.import_line FROM {} s WHERE (SELECT true FROM {} t WHERE {} AND t.import_job = s.import_job"
        " AND t.import_line = s.import_line LIMIT 1) IS NULL"
    ).format(TRIED, target, tables.same(key, "t", "s"))
    with tables.planned(connection, "seqscan"):
        return [line for (line,) in connection.execute(query, prepare=False)]
