"""A query of somebody else as the source of an export: any SELECT, and nothing but one SELECT. It is described before
anything is submitted: an error in it is told at once, and every process that works the job expects the same columns."""

import psycopg

from bulk_pipelines.database import namespaces, queries
from bulk_pipelines.database.pool import Connection, reason
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.request import QUERY, of_query
from bulk_pipelines.resources import reflection
from bulk_pipelines.resources.declaration import Resource

UNNAMED = "?column?"


def described(connection: Connection, query: str) -> Resource:
    """Return the columns of a query as a declaration. The transaction may only read from then on."""
    connection.execute("SET TRANSACTION READ ONLY")
    namespaces.turn_to_theirs(connection)
    try:
        with connection.transaction():
            # What is prepared is one statement: nothing behind it can end the transaction that only reads.
            found = connection.execute(f"SELECT * FROM ({query}\n) AS given LIMIT 0".encode(), prepare=True)
    except psycopg.Error as error:
        raise InvalidInput(QUERY, f"{reason(error)}; it has to be one SELECT") from None
    result = found.pgresult
    columns = found.description or []
    assert result is not None
    names = [column.name for column in columns]
    refuse_unusable(names)
    values = {
        "names": names,
        "types": [column.type_code for column in columns],
        "modifiers": [result.fmod(place) for place in range(len(columns))],
    }
    rows = connection.execute(queries.text("reflection", "columns_of_query"), values)
    return of_query([reflection.column_of(row) for row in rows])


def refuse_unusable(names: list[str]) -> None:
    if not names:
        raise InvalidInput(QUERY, "it returns no columns")
    if UNNAMED in names:
        raise InvalidInput(QUERY, "a column has no name: write `AS name` behind it")
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(QUERY, f"two of its columns are called {name}: write `AS name` behind one of them")


def text_of(query: str) -> str:
    """Return a query as it is embedded in another one: without the semicolon at its end."""
    return query.strip().rstrip(";").rstrip()
