"""Taking an import back: removing the rows that it added, except those that were changed since or are referred to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import psycopg
from psycopg import errors, sql

from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.errors import Conflict
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.load import conflicts, refusals, tables
from bulk_pipelines.resources.declaration import Resource

# How many pages of the table one transaction handles: with rows of ordinary size, some ten thousand rows.
PAGES = 500


@dataclass(frozen=True)
class Undoable:
    """How many rows that an import added are still there. `free` rows can be taken back; rows that somebody changed,
    or that other rows refer to, stay."""

    free: int
    changed: int
    referred_to: int


def check(mode: Mode, resource: Resource) -> None:
    """Raise `Conflict` unless the mode is insert and the rows say where they come from. Only added rows can be taken
    back: nothing keeps what an upsert has overwritten."""
    if not resource.provenance:
        raise Conflict(
            f"an import into {'.'.join(resource.place)} cannot be undone: its rows do not say where they come from."
            f" `bulk resources adopt --provenance` gives the table the columns for it, for imports from then on"
        )
    if mode is not Mode.INSERT:
        raise Conflict(f"an import in the mode {mode} cannot be undone: only insert can")


def count(connection: Connection, resource: Resource, job_id: int) -> Undoable:
    row = connection.execute(
        sql.SQL(
            "SELECT count(*) FILTER (WHERE is_free), count(*) FILTER (WHERE import_revised),"
            " count(*) FILTER (WHERE NOT is_free AND NOT import_revised)"
            " FROM (SELECT t.import_revised, {} AS is_free FROM {} t WHERE t.import_job = {}) found"
        ).format(is_free(resource), tables.table(resource), job_id),
        prepare=False,
    ).fetchone()
    return Undoable(*row) if row else Undoable(0, 0, 0)


def take_back(
    begin: Begin, resource: Resource, job_id: int, note: Callable[[Connection, int], None] = lambda _, __: None
) -> Iterator[int]:
    """Remove the free rows piece by piece, each piece in a transaction of its own, and yield how many each time. Rows
    that the table refuses to delete stay. `note` is called in each transaction with how many rows it removed. This can
    be cut short and called again."""
    with begin() as connection:
        first, last = pages(connection, resource, job_id)
    for page in range(first, last + 1, PAGES):
        piece = sql.SQL("t.ctid >= {}::tid AND t.ctid < {}::tid").format(f"({page},0)", f"({page + PAGES},0)")
        with begin() as connection:
            refusals.at_once(connection)
            removed = conflicts.persistently(
                connection, (errors.DeadlockDetected,), partial(remove, connection, resource, job_id, piece)
            )
            note(connection, removed)
        yield removed


def remove(connection: Connection, resource: Resource, job_id: int, piece: sql.Composed) -> int:
    """Remove the free rows of a piece of the table, one by one if the table refuses, and return how many."""
    table = tables.table(resource)
    condition = sql.SQL("t.import_job = {} AND {}").format(job_id, is_free(resource))
    try:
        with namespaces.theirs(connection):
            statement = sql.SQL("DELETE FROM {} t WHERE {} AND {}").format(table, piece, condition)
            return connection.execute(statement).rowcount
    except psycopg.Error as error:
        if not refusals.about_rows(error):
            raise
    query = sql.SQL("SELECT t.import_line FROM {} t WHERE {} AND {}").format(table, piece, condition)
    lines = [found for (found,) in connection.execute(query)]
    one = sql.SQL("DELETE FROM {} t WHERE t.import_line = ANY ({}) AND {} AND {}").format(
        table, refusals.CHUNK, piece, condition
    )
    return refusals.attempt(connection, one, lines).written


def is_free(resource: Resource) -> sql.Composed:
    return tables.listed([sql.SQL("NOT t.import_revised"), *tables.unreferenced(resource, "t")], " AND ")


def pages(connection: Connection, resource: Resource, job_id: int) -> tuple[int, int]:
    """Return the first and the last page of the table that hold rows of the import; an empty range if none does."""
    row = connection.execute(
        sql.SQL("SELECT min(ctid)::text, max(ctid)::text FROM {} WHERE import_job = {}").format(
            tables.table(resource), job_id
        )
    ).fetchone()
    if row is None or row[0] is None:
        return 0, -1
    first, last = (int(place[1:].split(",")[0]) for place in row)
    return first, last
