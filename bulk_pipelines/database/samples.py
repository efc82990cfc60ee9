"""The tables that come with the program to try it with: users, articles and comments to import and export, and
`index_data` to distribute. They are made among the tables of people, when somebody asks for them or the embedded
database is new."""

from collections.abc import Sequence

from psycopg import sql

from bulk_pipelines.database import namespaces, pool, queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import Conflict

RESOURCES = ("users", "articles", "comments")
SAMPLES = (*RESOURCES, "index_data")


def make(connection: Connection) -> list[str]:
    """Make the tables of the resources that come with the program, and return their names; none if they are all there.
    Raise `Conflict` if somebody has a table of such a name."""
    with namespaces.theirs(connection):
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('bulk_pipelines.samples', 0))")
        found = dict(connection.execute(queries.text("samples", "there"), {"names": list(RESOURCES)}).fetchall())
        if len(found) == len(RESOURCES) and all(found.values()):
            return []
        if found:
            raise Conflict(
                f"there is a table {', '.join(sorted(found))} already, which is not ours: adopt it under another name "
                "(bulk resources adopt TABLE --name NAME), or make the samples in another schema "
                "(options=-csearch_path=… in BULK_DATABASE_URL)"
            )
        connection.execute(queries.text("samples", "resources").encode())
        trace = sql.SQL("SELECT {}(%s::regclass)").format(namespaces.own("trace_imports"))
        for name in RESOURCES:
            connection.execute(trace, [name])
    return list(RESOURCES)


def make_index_data(connection: Connection) -> None:
    with namespaces.theirs(connection):
        connection.execute(queries.text("samples", "index_data").encode())


def are_there(connection: Connection, names: Sequence[str]) -> bool:
    """Whether people have a table with one of these names where they look first."""
    with namespaces.theirs(connection):
        return bool(connection.execute(queries.text("samples", "there"), {"names": list(names)}).fetchall())


def furnish(url: str) -> None:
    """Make all samples in a database that is new. Tables of other people are no reason to fail."""
    with pool.single(url) as connection, connection.transaction():
        if not are_there(connection, SAMPLES):
            make(connection)
            make_index_data(connection)
