"""What the table has against records that wait aside, noted with each of them."""

from typing import Any

import psycopg
from psycopg import sql

from bulk_pipelines.imports import conflicts, tables, waiting
from bulk_pipelines.imports.terms import Terms
from bulk_pipelines.resources.declaration import Key, Reference

Connection = psycopg.Connection[Any]


def mark(connection: Connection, terms: Terms) -> None:
    """Notes, with each record that waits, the keys that rows of the table hold and the references that lead nowhere."""
    with conflicts.row_by_row(connection):
        for first, last in waiting.windows(connection, terms):
            for key in terms.resource.keys:
                if key != terms.match_on:
                    connection.execute(held(terms, key), [first, last], prepare=False)
    mark_missing(connection, terms)


def mark_missing(connection: Connection, terms: Terms) -> None:
    with conflicts.row_by_row(connection):
        for first, last in waiting.windows(connection, terms):
            for reference in terms.resource.references:
                connection.execute(missing(terms, reference), [first, last], prepare=False)


def refuse(connection: Connection, terms: Terms, line: int, error: psycopg.Error) -> None:
    """Notes with one record what the table said of it."""
    note = sql.SQL("UPDATE {} SET refused = %s WHERE import_job = {} AND import_line = %s")
    statement = note.format(tables.aside(terms.resource), terms.job_id)
    connection.execute(statement, [error.diag.message_primary, line])


def held(terms: Terms, key: Key) -> sql.Composed:
    conditions = [tables.same(key, "t", "a"), sql.SQL("NOT {} = ANY(a.held)").format(key.column)]
    if terms.match_on:
        # The row that the record is about may hold the key; and it keeps its id, whatever the record says.
        about = tables.same(terms.match_on, "m", "a")
        if key == terms.resource.id_key:
            nobody = sql.SQL("NOT EXISTS (SELECT FROM {} m WHERE {})").format(tables.table(terms.resource), about)
            conditions.append(nobody)
        else:
            conditions.append(sql.SQL("NOT {}").format(tables.same(terms.match_on, "t", "a")))
    return sql.SQL(
        "UPDATE {} a SET held = array_append(a.held, {}) FROM {} t"
        " WHERE a.import_job = {} AND a.import_line BETWEEN %s AND %s AND {}"
    ).format(
        tables.aside(terms.resource),
        key.column,
        tables.table(terms.resource),
        terms.job_id,
        tables.listed(conditions, " AND "),
    )


def missing(terms: Terms, reference: Reference) -> sql.Composed:
    column = sql.Identifier(reference.column)
    return sql.SQL(
        "UPDATE {} a SET missing = array_append(a.missing, {})"
        " WHERE a.import_job = {} AND a.import_line BETWEEN %s AND %s AND NOT {} = ANY(a.missing)"
        " AND NOT EXISTS (SELECT FROM {} t WHERE t.id = a.{})"
    ).format(
        tables.aside(terms.resource),
        reference.column,
        terms.job_id,
        reference.column,
        sql.Identifier(reference.resource),
        column,
    )
