"""Taking an import back: removing the rows that it added, except those that were changed since or are referred to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import psycopg
from psycopg import errors, sql
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces, queries
from bulk_pipelines.database.pool import Begin, Connection, transaction
from bulk_pipelines.engine.jobs.audit import Actor, Tally
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import Conflict
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.load import conflicts, refusals, tables
from bulk_pipelines.imports.request import ImportRequest
from bulk_pipelines.resources import reflection
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


def undo(pool: Engine, job: Job, by: Actor | None, told: Callable[[int], None] = lambda _: None) -> int:
    """Take an import back: remove the rows that it added and nobody has changed or needs since. Return how many went.
    `told` is called with how many went at a time."""
    tally = Tally(by, "undo")
    total = 0
    for removed in take_back(
        lambda: transaction(pool),
        undoable(job),
        job.job_id,
        lambda connection, count: tally.add(connection, job.job_id, count),
    ):
        total += removed
        told(removed)
    return total


def undoable(job: Job) -> Resource:
    """Return the resource of an import that can be taken back; raise `Conflict`, which says why, if it cannot."""
    request = ImportRequest.from_params(job.params)
    check(request.mode, request.declared)
    if not job.finished:
        raise Conflict(f"job {job.job_key} is {job.status}: cancel it first, or wait for its end")
    return request.declared


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


def as_it_is(connection: Connection, resource: Resource) -> Resource:
    """Return the resource as its table is now; raise `Conflict` if its rows do not say any more where they come
    from."""
    found = reflection.as_referred_to(connection, resource)
    row = connection.execute(
        queries.text("imports", "says_origin"), {"table": tables.quoted(found, connection)}
    ).fetchone()
    if not (row and row[0]):
        raise Conflict(f"the rows of {'.'.join(resource.place)} do not say any more where they come from")
    unnoted = reflection.unnoted(connection, found.place)
    if unnoted:
        raise Conflict(
            f"changes of rows of {', '.join(unnoted)} are not noted, because the trigger for it is gone or turned off,"
            " and nobody knows which rows were changed since. For imports from now on, drop the columns import_job,"
            " import_line and import_revised, and adopt the table --provenance --again"
        )
    hidden = sorted({f"{each.schema}.{each.table}" for each in found.referrers if each.hidden})
    if hidden:
        raise Conflict(
            f"rows of {', '.join(hidden)} refer to {'.'.join(resource.place)} and would change with it, and this role"
            f" cannot see them: GRANT SELECT ON {', '.join(hidden)} TO it, or let a role undo the import that may"
        )
    there = {(each.columns, each.to) for each in found.referrers if (each.schema, each.table) == found.place}
    return replace(found, references=tuple(own for own in found.own_references if (own.columns, own.to) in there))


def count(connection: Connection, resource: Resource, job_id: int) -> Undoable:
    resource = as_it_is(connection, resource)
    row = connection.execute(
        sql.SQL(
            "{} SELECT count(*) FILTER (WHERE is_free), count(*) FILTER (WHERE import_revised),"
            " count(*) FILTER (WHERE NOT is_free AND NOT import_revised)"
            " FROM (SELECT t.import_revised, {} AND {} AS is_free FROM {} t WHERE t.import_job = {}) found"
        ).format(needed(resource, job_id, []), is_free(resource), unneeded(resource), tables.table(resource), job_id),
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
        resource = as_it_is(connection, resource)
    if resource.own_references:
        with begin() as connection:
            refusals.at_once(connection)
            removed = conflicts.persistently(
                connection, (errors.DeadlockDetected,), partial(remove_together, connection, resource, job_id)
            )
            note(connection, removed)
        yield removed
        return
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


def remove_together(connection: Connection, resource: Resource, job_id: int) -> int:
    """Remove the free rows of a table whose rows refer to each other: all at once, except those that the table refuses
    to delete, and those that rows which stay refer to. Return how many there were."""
    table, own = tables.table(resource), {each.constraint for each in resource.own_references}
    condition = sql.SQL("t.import_job = {} AND {}").format(job_id, is_free(resource))
    kept: list[int] = []
    total = 0
    while True:
        statement = sql.SQL("{} DELETE FROM {} t WHERE {} AND t.import_line <> ALL ({}::bigint[]) AND {}").format(
            needed(resource, job_id, kept), table, condition, kept, unneeded(resource)
        )
        try:
            with namespaces.theirs(connection):
                return total + connection.execute(statement, prepare=False).rowcount
        except psycopg.Error as error:
            if not refusals.about_rows(error):
                raise
        query = sql.SQL("SELECT t.import_line FROM {} t WHERE {} AND t.import_line <> ALL (%s::bigint[])").format(
            table, condition
        )
        lines = [found for (found,) in connection.execute(query, [kept], prepare=False)]
        one = sql.SQL("DELETE FROM {} t WHERE t.import_line = ANY ({}) AND {}").format(table, refusals.CHUNK, condition)
        result = refusals.attempt(connection, one, lines)
        total += result.written
        refused = [line for line, each in result.refused.items() if each.constraint not in own]
        if not refused:
            return total
        kept += refused


def needed(resource: Resource, job_id: int, kept: list[int]) -> sql.Composable:
    """Write a query to stand before a statement: the places of those rows of the import that other rows of the table
    refer to which stay. These are the rows of somebody else, rows that are not free, and the lines that are kept."""
    own = resource.own_references
    if not own:
        return sql.SQL("")
    table = tables.table(resource)
    stays = sql.SQL("(({}) AND s.import_job = {} AND s.import_line <> ALL ({}::bigint[])) IS NOT TRUE").format(
        is_free(resource, "s"), job_id, kept
    )
    looks_up = tables.listed(
        [
            sql.SQL("SELECT t.ctid AS place FROM {} t WHERE {} AND t.import_job = {}").format(
                table, tables.names(each, "s", "t"), job_id
            )
            for each in own
        ],
        " UNION ALL ",
    )
    return sql.SQL(
        "WITH RECURSIVE needed AS (SELECT up.place FROM {table} s, LATERAL ({up}) up WHERE {stays} UNION"
        " SELECT up.place FROM needed JOIN {table} s ON s.ctid = needed.place, LATERAL ({up}) up)"
    ).format(table=table, up=looks_up, stays=stays)


def unneeded(resource: Resource) -> sql.Composable:
    return sql.SQL("t.ctid NOT IN (SELECT place FROM needed)" if resource.own_references else "true")


def is_free(resource: Resource, alias: str = "t") -> sql.Composed:
    unrevised = sql.SQL("NOT {}").format(sql.Identifier(alias, "import_revised"))
    return tables.listed([unrevised, *tables.unreferenced(resource, alias)], " AND ")


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
