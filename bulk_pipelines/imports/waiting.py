"""The records of an import that wait aside."""

from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

from bulk_pipelines.imports import tables
from bulk_pipelines.imports.terms import Terms

Connection = psycopg.Connection[Any]

AT_ONCE = 50_000


def is_any(connection: Connection, terms: Terms) -> bool:
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE import_job = {})")
    row = connection.execute(query.format(tables.aside(terms.resource), terms.job_id)).fetchone()
    return bool(row and row[0])


def windows(connection: Connection, terms: Terms) -> Iterator[tuple[int, int]]:
    """The lines that wait, in pieces: the first and the last line of each."""
    query = sql.SQL(
        "SELECT min(import_line), max(import_line) FROM (SELECT import_line FROM {} WHERE import_job = {}"
        " AND import_line > %s ORDER BY import_line LIMIT {}) piece"
    ).format(tables.aside(terms.resource), terms.job_id, AT_ONCE)
    last = -1
    while True:
        row = connection.execute(query, [last]).fetchone()
        if row is None or row[0] is None:
            return
        first, last = row
        yield first, last


def remove(connection: Connection, terms: Terms, lines: list[int] | None = None) -> int:
    """Removes these records, or all; how many there were."""
    statement = sql.SQL("DELETE FROM {} WHERE import_job = {}").format(tables.aside(terms.resource), terms.job_id)
    if lines is None:
        return connection.execute(statement).rowcount
    return connection.execute(statement + sql.SQL(" AND import_line = ANY(%s)"), [lines]).rowcount
