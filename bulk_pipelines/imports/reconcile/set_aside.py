"""The records of an import that were set aside, and wait there until the whole file is known."""

from collections.abc import Iterator

from psycopg import sql

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import tables
from bulk_pipelines.resources.declaration import Resource

AT_ONCE = 50_000


def is_there(connection: Connection, resource: Resource, job_id: int) -> bool:
    """Tell whether there is a place where the records of an import wait. One of its own is made by its first lane, and
    goes when the import has ended."""
    name = tables.aside_of(resource, job_id).as_string(connection)
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone()
    return bool(row and row[0])


def is_any(connection: Connection, context: ImportContext) -> bool:
    if not is_there(connection, context.resource, context.job_id):
        return False
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE import_job = {})")
    row = connection.execute(query.format(tables.aside(context), context.job_id)).fetchone()
    return bool(row and row[0])


def count(connection: Connection, context: ImportContext) -> int:
    query = sql.SQL("SELECT count(*) FROM {} WHERE import_job = {}")
    row = connection.execute(query.format(tables.aside(context), context.job_id)).fetchone()
    return int(row[0]) if row else 0


def windows(connection: Connection, context: ImportContext) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each piece of the records that wait."""
    query = sql.SQL(
        "SELECT min(import_line), max(import_line) FROM (SELECT import_line FROM {} WHERE import_job = {}"
        " AND import_line > %s ORDER BY import_line LIMIT {}) piece"
    ).format(tables.aside(context), context.job_id, AT_ONCE)
    last = -1
    while True:
        row = connection.execute(query, [last]).fetchone()
        if row is None or row[0] is None:
            return
        first, last = row
        yield first, last


def remove(connection: Connection, context: ImportContext, lines: list[int]) -> int:
    """Remove these records from those that wait, and return how many there were."""
    statement = sql.SQL("DELETE FROM {} WHERE import_job = {} AND import_line = ANY(%s)")
    return connection.execute(statement.format(tables.aside(context), context.job_id), [lines]).rowcount


def clear(connection: Connection, resource: Resource, job_id: int) -> int:
    """Remove all records of an import from those that wait, and return how many there were."""
    if not is_there(connection, resource, job_id):
        return 0
    statement = sql.SQL("DELETE FROM {} WHERE import_job = {}")
    return connection.execute(statement.format(tables.aside_of(resource, job_id), job_id)).rowcount


def left_behind(connection: Connection, resource: Resource) -> list[tuple[int, str | None]]:
    """Find imports that can never go on and of which records still wait. Return the id of each, and its key unless the
    job is gone. Each import with waiting records costs one look into the index, however many records it has."""
    query = sql.SQL(
        """
        WITH RECURSIVE waiting AS (
            (SELECT import_job FROM {aside} ORDER BY import_job LIMIT 1)
            UNION ALL
            SELECT (SELECT a.import_job FROM {aside} a WHERE a.import_job > waiting.import_job
                    ORDER BY a.import_job LIMIT 1)
            FROM waiting WHERE waiting.import_job IS NOT NULL
        )
        SELECT waiting.import_job, job.job_key
        FROM waiting LEFT JOIN job ON job.job_id = waiting.import_job
        WHERE waiting.import_job IS NOT NULL AND (job.job_id IS NULL OR (
            job.finished_at IS NOT NULL AND job.running_items = 0 AND job.result IS NOT NULL
            AND (job.status = 'CANCELLED' OR job.dlq_items = 0 OR job.items_pruned_at IS NOT NULL)
        ))
        """
    ).format(aside=tables.aside_of(resource, 0))
    return connection.execute(query).fetchall()
