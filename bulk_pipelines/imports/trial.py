"""What the constraints of a table say of single records, tried in an empty copy of it: the table itself is not touched.

The copy has the CHECK constraints, also those that no declaration knows. Declared keys and references are compared with
the table itself. What its triggers and its undeclared indexes and references would say, only loading tells.
"""

from typing import Any

import psycopg
from psycopg import sql

from bulk_pipelines.imports import conflicts, marks, tables, waiting
from bulk_pipelines.imports.terms import Terms

Connection = psycopg.Connection[Any]

COPY = sql.Identifier("pg_temp", "trial")


def refuse(connection: Connection, terms: Terms) -> None:
    """Note with the records that wait what the copy of the table says of them."""
    connection.execute(
        sql.SQL(
            "CREATE TEMP TABLE trial (LIKE {} INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED"
            " INCLUDING IDENTITY) ON COMMIT DROP"
        ).format(tables.table(terms.resource))
    )
    for first, last in waiting.windows(connection, terms):
        query = sql.SQL("SELECT import_line FROM {} WHERE import_job = {} AND import_line BETWEEN %s AND %s").format(
            tables.aside(terms.resource), terms.job_id
        )
        insert(connection, terms, [line for (line,) in connection.execute(query, [first, last])])
        connection.execute(sql.SQL("TRUNCATE {}").format(COPY))
    connection.execute(sql.SQL("DROP TABLE {}").format(COPY))


def insert(connection: Connection, terms: Terms, lines: list[int]) -> None:
    """Insert these records, and close in on those that are refused."""
    statement = sql.SQL(
        "INSERT INTO {} ({}) SELECT {} FROM {} a WHERE import_job = {} AND import_line = ANY(%s)"
    ).format(
        COPY,
        tables.columns(terms.resource),
        tables.columns(terms.resource, "a"),
        tables.aside(terms.resource),
        terms.job_id,
    )
    try:
        with connection.transaction():
            connection.execute(statement, [lines])
    except conflicts.FAULTS as error:
        if len(lines) == 1:
            marks.refuse(connection, terms, lines[0], error)
            return
        middle = len(lines) // 2
        insert(connection, terms, lines[:middle])
        insert(connection, terms, lines[middle:])
