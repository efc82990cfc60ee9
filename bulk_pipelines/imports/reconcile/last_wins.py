"""Reconciling upserts: of several records about one row, the last in the file counts.

Whether a record may have a second key, such as an address, is decided by the table as it is before the first change,
and by the file as a whole. No record gives way to one that is rejected, and no record takes a key that a row of the
table still holds, even if the same file would change that row.

An upsert changes its table in one transaction, which also ends its job, or not at all. Until that transaction commits,
whoever aborts, cancels, pauses or kills the import finds the table as it was.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import psycopg
from psycopg import errors, sql

from bulk_pipelines.counted import counted
from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.load import refusals, same_table, tables
from bulk_pipelines.imports.load.refusals import Attempt, Refusal
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.reconcile import late_rejects, objections, own_references, set_aside, unchanged
from bulk_pipelines.imports.reconcile.control import Control
from bulk_pipelines.imports.reconcile.unchanged import RowsBefore
from bulk_pipelines.resources.declaration import PROVENANCE, Column, Fill, Key

AT_ONCE = 20_000
ANY = sql.SQL("true")

# Others may change the table between the comparison with it and the merge. If that seems to happen so many times in a
# row, it is no coincidence: a trigger gives records other keys. Then the refused records are found by trying.
COMPARISONS = 3
ATTEMPTS = 20
"""How often a merge is tried. A deadlock ends one of its transactions, and the others go on, so meeting so many of them
is no coincidence."""


class Overtaken(Exception):
    """The import may not end any more: it was paused, cancelled or taken up again while it was merged."""


class Changed(Exception):
    """Others changed the table since the records were compared with it."""


class NotAccepted(Exception):
    """The table refused more records than the import accepts."""

    def __init__(self, refused: dict[int, Refusal]) -> None:
        super().__init__(f"{counted(len(refused), 'record was', 'records were')} refused")
        self.refused = refused


def reconcile_upserts(begin: Begin, context: ImportContext, layout: Layout, control: Control) -> bool:
    """Merge everything that waits, and end the import in the same transaction. Return false if the import was
    overtaken; then nothing was merged."""
    comparisons, in_turn = COMPARISONS, False
    for left in reversed(range(ATTEMPTS)):
        with begin() as connection:
            resolve(connection, context, layout, control)
        control.complete(begin)
        try:
            with begin() as connection:
                if in_turn:
                    await_turn(connection, context)
                control.note(connection, merged(connection, context, layout, control, patient=comparisons > 1))
                if not control.end(connection):
                    raise Overtaken
            return True
        except Overtaken:
            return False
        except Changed:
            comparisons -= 1
        except errors.DeadlockDetected:
            if not left:
                raise
            in_turn = True
    raise AssertionError("the last attempt returns or raises")


def await_turn(connection: Connection, context: ImportContext) -> None:
    """Wait until no other merge into this table that met a deadlock is at work. Two merges that change the same rows
    in opposite orders would otherwise take turns in being the victim."""
    name = f"bulk_pipelines.merge.{'.'.join(context.resource.place)}"
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def resolve(connection: Connection, context: ImportContext, layout: Layout, control: Control) -> None:
    """Drop the records that a later record supersedes, and reject those that cannot be merged. The records that are
    left can be merged in any order."""
    assert context.match_on is not None
    superseded = connection.execute(
        sql.SQL(
            """
            DELETE FROM {aside} WHERE import_job = {job} AND import_line = ANY(ARRAY(
                SELECT import_line FROM (
                    SELECT import_line, max(import_line) OVER (PARTITION BY {key}) AS last
                    FROM {aside} a WHERE import_job = {job} AND {whole}
                ) found WHERE import_line < last
            ))
            """
        ).format(
            aside=tables.aside(context),
            key=tables.key(context.match_on, "a"),
            whole=tables.is_whole(context.match_on, "a"),
            job=context.job_id,
        ),
        prepare=False,
    ).rowcount
    objections.mark(connection, context)
    own_references.mark(connection, context)
    rejected = late_rejects.reject(connection, context, layout)
    if superseded or rejected:
        control.note(connection, Counts(waiting=-superseded - rejected, superseded=superseded, rejected=rejected))


def merged(
    connection: Connection, context: ImportContext, layout: Layout, control: Control, *, patient: bool
) -> Counts:
    """Merge all records that wait, or none if more would be rejected than the import accepts. Return the changes of the
    counts. If it is `patient`, raise `Changed` when others took the key of a record, instead of rejecting the record.
    """
    found = Counts()
    if control.accepts(connection, 0):
        try:
            with connection.transaction():
                refusals.at_once(connection)
                found = merge_all(connection, context, layout, control, patient)
                check_refused(connection, context, control)
        except NotAccepted as error:
            found = Counts()
            objections.refuse(connection, context, error.refused)
            own_references.mark(connection, context)
    rejected = late_rejects.reject(connection, context, layout)
    if rejected:
        control.complete(lambda: nullcontext(connection))
    given_up = set_aside.clear(connection, context.resource, context.job_id)
    return found + Counts(
        read=-given_up,
        rejected=rejected,
        waiting=-found.loaded - rejected - given_up,
        unprocessed=given_up,
    )


def check_refused(connection: Connection, context: ImportContext, control: Control) -> None:
    refused = objections.refused(connection, context)
    if not control.accepts(connection, set_aside.count(connection, context)):
        raise NotAccepted(refused)


def merge_all(
    connection: Connection, context: ImportContext, layout: Layout, control: Control, patient: bool
) -> Counts:
    """Merge the records that wait, in pieces; return how many of them the table took, and what became of them."""
    assert context.match_on is not None
    found, last = Counts(), -1
    while lines := next_lines(connection, context, last):
        if not control.at_work(connection):
            raise Overtaken
        found += merge_lines(connection, context, context.match_on, layout, lines, patient)
        if context.resource.own_references:
            own_references.mark(connection, context)  # and those that were put off are merged next
        else:
            last = lines[-1]
    same_table.check(connection, context)
    return found


def next_lines(connection: Connection, context: ImportContext, last: int) -> list[int]:
    """Return the next lines that wait behind this one. Merged records stay in the index until the transaction ends, so
    a search from the beginning would pass over all of them."""
    query = sql.SQL(
        "SELECT import_line FROM {} WHERE import_job = {} AND import_line > %s"
        " AND import_refused IS NULL AND import_missing = '{{}}' ORDER BY import_line LIMIT {}"
    ).format(tables.aside(context), context.job_id, own_references.together(context.resource, AT_ONCE))
    return [line for (line,) in connection.execute(query, [last])]


def merge_lines(
    connection: Connection, context: ImportContext, match_on: Key, layout: Layout, lines: list[int], patient: bool
) -> Counts:
    """Merge these records; return how many of them the table took. What the table says of a record that it refuses is
    noted with the record."""
    exact = not context.resource.provenance
    before = RowsBefore()
    try:
        with namespaces.theirs(connection) as made:
            before = unchanged.compared(connection, context, match_on, layout, lines)
            result = Attempt(merge_together(connection, context, match_on, layout, lines, before.ids))
            if result.written < len(lines) and exact:
                raise psycopg.Rollback(made)
        is_refused = exact and result.written < len(lines)
    except psycopg.Error as error:
        refusals.judge(connection, context, error)
        if patient and own_references.means_change(context, error.diag.constraint_name):
            raise Changed from error
        is_refused = True
    if is_refused:
        with tables.planned(connection, "hashjoin", "mergejoin"):
            statement = merge(context, match_on, layout, refusals.CHUNK)
            result = refusals.attempt(connection, statement, lines, exact=exact)
    again = own_references.put_off(context.resource, result)
    if patient and any(own_references.means_change(context, each.constraint) for each in result.refused.values()):
        raise Changed
    taken = objections.outcome(connection, context, [line for line in lines if line not in again], result, match_on)
    set_aside.remove(connection, context, taken)
    return before.counts(taken)


def merge_together(
    connection: Connection,
    context: ImportContext,
    match_on: Key,
    layout: Layout,
    lines: list[int],
    targets: Sequence[Any],
) -> int:
    """Merge these records by one statement, and return how many rows it wrote. `targets` are the ids of the rows of one
    of our own tables that they are about."""
    if not context.resource.built_in:
        statement = merge(context, match_on, layout, sql.Placeholder("lines"))
        with tables.planned(connection, "seqscan", "hashjoin", "mergejoin"):
            return connection.execute(statement, {"lines": lines}, prepare=False).rowcount
    values = {"lines": lines, "targets": list(targets)}
    among = sql.SQL("t.id = ANY ({})").format(sql.Placeholder("targets"))
    statement = merge(context, match_on, layout, sql.Placeholder("lines"), among)
    # Both sides are found by their keys and hold no more rows than are merged, so a hash join is always good.
    with tables.planned(connection, "seqscan", "nestloop", "mergejoin"):
        return connection.execute(statement, values, prepare=False).rowcount


def merge(
    context: ImportContext, match_on: Key, layout: Layout, lines: sql.Composable, among: sql.Composable = ANY
) -> sql.Composed:
    """Write the statement that merges the records of these lines into the table. `among` is a condition for the rows
    that the records can be about."""
    resource = context.resource
    kept = [column for column in resource.columns if is_changed(column, resource.id_columns, layout)]
    changes = [sql.SQL("{} = {}").format(sql.Identifier(column.name), changed(column, context)) for column in kept]
    changes += [sql.SQL("{name} = a.{name}").format(name=sql.Identifier(name)) for name in resource.origin]
    if resource.provenance:
        changes.append(sql.SQL("{} = false").format(sql.Identifier(PROVENANCE[2])))
    elif not changes:  # the file has nothing but the key, and a row that is there counts as written
        changes.append(sql.SQL("{name} = t.{name}").format(name=sql.Identifier(match_on.column)))
    values = [in_new_row(column, context) for column in resource.columns]
    return sql.SQL(
        """
        MERGE INTO {table} t
        USING (SELECT * FROM {aside} WHERE import_job = {job} AND import_line = ANY ({lines})) a
        ON {same} AND {among}
        WHEN MATCHED THEN UPDATE SET {changes}
        WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})
        """
    ).format(
        table=tables.table(resource),
        aside=tables.aside(context),
        job=context.job_id,
        lines=lines,
        among=among,
        same=tables.same(match_on, "t", "a"),
        changes=tables.listed(changes),
        names=tables.columns(resource),
        values=tables.listed([*values, *(sql.Identifier("a", name) for name in resource.origin)]),
    )


def is_changed(column: Column, id_columns: tuple[str, ...], layout: Layout) -> bool:
    """Tell whether a merge changes this column of a row. A row keeps its id, and keeps what the file has no column for,
    except the time of its last change."""
    return column.name not in id_columns and (column.name in layout.columns or column.fill is Fill.CHANGE_TIME)


def changed(column: Column, context: ImportContext) -> sql.Composed:
    """Write the new value of a column in a row that exists. Where a new row would get a stand-in for a missing value,
    an existing row keeps its own value; only the time of its last change is filled in as in a new row."""
    given = sql.SQL("{}").format(sql.Identifier("a", column.name))
    if column.fill is None:
        return given
    if column.fill is Fill.CHANGE_TIME:
        return in_new_row(column, context)
    return sql.SQL("coalesce({}, {})").format(given, sql.Identifier("t", column.name))


def in_new_row(column: Column, context: ImportContext) -> sql.Composed:
    given = sql.SQL("{}").format(sql.Identifier("a", column.name))
    match column.fill:
        case Fill.IMPORT_TIME | Fill.CHANGE_TIME:
            return sql.SQL("coalesce({}, {})").format(given, context.submitted_at)
        case Fill.TRUE:
            return sql.SQL("coalesce({}, true)").format(given)
        case Fill.EMPTY_LIST:
            return sql.SQL("coalesce({}, '{{}}')").format(given)
        case Fill.NEW_ID | None:
            return given
