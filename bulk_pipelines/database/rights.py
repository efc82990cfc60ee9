"""What the role of a session may not do, told before it is needed."""

from collections.abc import Sequence

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection


def missing(connection: Connection, tables: Sequence[str], sequences: Sequence[str]) -> list[str]:
    """Return what the role may not do with these tables and sequences and in the database: words behind "may not"."""
    values = {"tables": list(tables), "sequences": list(sequences)}
    found = [said for (said,) in connection.execute(queries.text("rights", "missing"), values)]
    return found + missing_to_try(connection)


def missing_to_try(connection: Connection) -> list[str]:
    """Return which of the rights is missing that one needs to find out which rows a table refuses."""
    return [said for (said,) in connection.execute(queries.text("rights", "missing_to_try"))]
