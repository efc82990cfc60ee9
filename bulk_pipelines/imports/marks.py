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
    with conflicts.planned(connection, "seqscan"):
        for first, last in waiting.windows(connection, terms):
            for key in terms.resource.keys:
                if key != terms.match_on:
                    connection.execute(held(terms, key), [first, last], prepare=False)
    mark_missing(connection, terms)


def mark_missing(connection: Connection, terms: Terms) -> None:
    with conflicts.planned(connection, "seqscan"):
        for first, last in waiting.windows(connection, terms):
            for reference in terms.resource.references:
                connection.execute(missing(terms, reference), [first, last], prepare=False)


def refuse(connection: Connection, terms: Terms, line: int, error: psycopg.Error) -> None:
    """Notes with one record what the table said of it."""
    note = sql.SQL("UPDATE {} SET refused = %s WHERE import_job = {} AND import_line = %s")
    statement = note.format(tables.aside(terms.resource), terms.job_id)
    connection.execute(statement, [error.diag.message_primary, line])


def refused(connection: Connection, terms: Terms) -> list[tuple[str, int]]:
    """What the table said of records, and their lines."""
    query = sql.SQL("SELECT refused, import_line FROM {} WHERE import_job = {} AND refused IS NOT NULL")
    return connection.execute(query.format(tables.aside(terms.resource), terms.job_id)).fetchall()


def refuse_again(connection: Connection, terms: Terms, refused: list[tuple[str, int]]) -> None:
    """Note again what the table said, after the changes of which it was said were rolled back."""
    note = sql.SQL("UPDATE {} SET refused = %s WHERE import_job = {} AND import_line = %s")
    with connection.cursor() as cursor:
        cursor.executemany(note.format(tables.aside(terms.resource), terms.job_id), refused)


def held(terms: Terms, key: Key) -> sql.Composed:
    holder = tables.lookup(terms.resource, key, "t", "a", sql.SQL("true"))
    if terms.match_on and key == terms.resource.id_key:
        # A row keeps its id, whatever the record about it says.
        about = tables.lookup(terms.resource, terms.match_on, "m", "a", sql.SQL("true"))
        condition = sql.SQL("{} AND {} IS NULL").format(holder, about)
    elif terms.match_on:
        # The row that the record is about may hold the key.
        other = sql.SQL("NOT {}").format(tables.same(terms.match_on, "t", "a"))
        condition = tables.lookup(terms.resource, key, "t", "a", other)
    else:
        condition = holder
    return note(terms, sql.SQL("held"), key.column, condition)


def missing(terms: Terms, reference: Reference) -> sql.Composed:
    return note(terms, sql.SQL("missing"), reference.column, tables.leads_nowhere(reference, "a"))


def note(terms: Terms, place: sql.SQL, name: str, condition: sql.Composed) -> sql.Composed:
    """Adds a name to a list of the records between two lines that fulfil the condition and do not have it yet."""
    return sql.SQL(
        "UPDATE {aside} a SET {place} = array_append(a.{place}, {name})"
        " WHERE a.import_job = {job} AND a.import_line BETWEEN %s AND %s"
        " AND NOT {name} = ANY(a.{place}) AND {condition}"
    ).format(aside=tables.aside(terms.resource), place=place, name=name, job=terms.job_id, condition=condition)
