"""Which records a table has left out without an error: a trigger returned no row for them."""

from psycopg import sql

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import tables
from bulk_pipelines.resources.declaration import Key


def left_out(
    connection: Connection,
    context: ImportContext,
    records: sql.Composable,
    target: sql.Composable,
    lines: list[int],
    key: Key | None,
    written: int,
) -> list[int]:
    """Return the lines, of these, of the records that have no row in the target, whose rows say where they come from.
    The target took `written` of the records.

    Most rows are found by their keys. The others may have no key, or another one that a trigger gave them. If there are
    such rows, what the import has written is looked through once.
    """
    absent = lines
    with tables.planned(connection, "seqscan"):
        if key is not None:
            query = sql.SQL(
                "SELECT s.import_line FROM {} s WHERE s.import_job = {} AND s.import_line = ANY (%s)"
                " AND (SELECT true FROM {} t WHERE {} AND t.import_job = s.import_job"
                " AND t.import_line = s.import_line LIMIT 1) IS NULL"
            ).format(records, context.job_id, target, tables.same(key, "t", "s"))
            absent = [line for (line,) in connection.execute(query, [lines], prepare=False)]
        if not absent or (len(lines) - len(absent) == written and not has_children(connection, target)):
            return absent
        query = sql.SQL("SELECT import_line FROM {} WHERE import_job = {} AND import_line = ANY (%s)").format(
            target, context.job_id
        )
        there = {line for (line,) in connection.execute(query, [absent], prepare=False)}
    return [line for line in absent if line not in there]


def has_children(connection: Connection, target: sql.Composable) -> bool:
    """Whether a trigger may put rows into tables that inherit from the target: these rows are found by their keys, too,
    and the target did not take them."""
    row = connection.execute(
        "SELECT relkind = 'r' AND relhassubclass FROM pg_class WHERE oid = %s::regclass", [target.as_string(connection)]
    ).fetchone()
    return bool(row and row[0])
