"""The verdicts on records that wait aside, by the file as a whole and the table as it is now."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from psycopg import sql

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.imports.load import conflict_reasons, tables
from bulk_pipelines.imports.load.conflict_reasons import Verdict
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.reconcile import set_aside
from bulk_pipelines.imports.records.parsed import Reason
from bulk_pipelines.resources.declaration import Key

Decision = tuple[int, list[Reason]]

CHUNK = 5_000


def decisions(connection: Connection, context: ImportContext, layout: Layout) -> Iterator[list[Decision]]:
    """Yield the lines of the records that are rejected, with all their reasons, in pieces. Records against which
    nothing stands are left out."""
    names = conflict_reasons.telling_columns(context.resource)
    keys = decisive_keys(context)
    with tables.planned(connection, "seqscan"), connection.cursor("decisions") as cursor:
        cursor.execute(query(context, names, keys))
        while rows := cursor.fetchmany(CHUNK):
            yield [decision for row in rows if (decision := decided(context, layout, names, keys, row))[1]]


def reject(connection: Connection, context: ImportContext, layout: Layout) -> int:
    """Reject the records that something stands against, and remove them from those that wait. Return how many they
    are."""
    rejected = 0
    for found in decisions(connection, context, layout):
        write_rejects(connection, context.job_id, found)
        rejected += set_aside.remove(connection, context, [line for line, _ in found])
    return rejected


def decided(context: ImportContext, layout: Layout, names: list[str], keys: list[Key], row: Sequence[Any]) -> Decision:
    line, held, missing, refused, *rest = row
    values, found = rest[: len(names)], rest[len(names) :]
    doubled: dict[str, int | None] = {}
    taken = set(held)
    for number, key in enumerate(keys):
        owner, own_line, is_there = found[3 * number : 3 * number + 3]
        if own_line is not None and own_line < line:
            owner, is_there = min(owner, own_line), False
        if owner != line:
            doubled[key.name] = owner
        if is_there:
            taken.add(key.name)
    verdict = Verdict(doubled, frozenset(taken), frozenset(missing), refused)
    record = "record" if layout.format is Format.JSON else "line"
    return line, conflict_reasons.reasons(context.resource, verdict, dict(zip(names, values, strict=True)), record)


def decisive_keys(context: ImportContext) -> list[Key]:
    """Return the keys that two records of the file must not share: all keys but the one that an upsert goes by."""
    return [key for key in context.resource.keys if key != context.match_on]


def query(context: ImportContext, names: list[str], keys: list[Key]) -> sql.Composed:
    """Write the query for what decides about the records aside. For each key it tells the line that owns the key among
    those aside. When inserting, it also tells the line of the row that this import has loaded with the key, and whether
    there is any row with it."""
    found: list[sql.Composable] = []
    for number, key in enumerate(keys):
        found.append(sql.SQL("a.{}").format(owner(number)))
        if context.mode is Mode.INSERT:
            found.append(tables.lookup(context.resource, key, "t", "a", tables.own_line(context, key, "t")))
            found.append(
                sql.SQL("{} IS NOT NULL").format(tables.lookup(context.resource, key, "t", "a", sql.SQL("true")))
            )
        else:
            found.append(sql.SQL("NULL::bigint, false"))
    texts = [sql.SQL("a.{}::text").format(sql.Identifier(name)) for name in names]
    # Records of an insert wait only if something stood against them. In the other modes all records wait, and most of
    # them are good, so the query looks for those that are not.
    doubled = [sql.SQL("a.{} <> a.import_line").format(owner(number)) for number in range(len(keys))]
    objected = [sql.SQL("a.import_held <> '{}' OR a.import_missing <> '{}' OR a.import_refused IS NOT NULL"), *doubled]
    condition = sql.SQL("true") if context.mode is Mode.INSERT else tables.listed(objected, " OR ")
    return sql.SQL("SELECT {} FROM ({}) a WHERE {} ORDER BY a.import_line").format(
        tables.listed([sql.SQL("a.import_line, a.import_held, a.import_missing, a.import_refused"), *texts, *found]),
        with_owners(context, keys),
        condition,
    )


def with_owners(context: ImportContext, keys: list[Key]) -> sql.Composed:
    """Write the query for the records aside, each with the lines that own its keys among them: the first line with the
    same key, or in an upsert the last one."""
    best = sql.SQL("max" if context.mode is Mode.UPSERT else "min")
    owners = [
        sql.SQL("CASE WHEN {} THEN {}(a.import_line) OVER (PARTITION BY {}) ELSE a.import_line END AS {}").format(
            tables.is_whole(key, "a"), best, tables.key(key, "a"), owner(number)
        )
        for number, key in enumerate(keys)
    ]
    return sql.SQL("SELECT {} FROM {} a WHERE a.import_job = {}").format(
        tables.listed([sql.SQL("a.*"), *owners]), tables.aside(context), context.job_id
    )


def owner(number: int) -> sql.Identifier:
    """Name the column for the line that owns the key of this number."""
    return sql.Identifier(f"import_owner{number}")


def write_reasons(connection: Connection, job_id: int, found: list[Decision]) -> None:
    """Replace the reasons that were noted when the batch was loaded with the final ones."""
    connection.execute(queries.text("imports", "write_late_reasons"), {"job_id": job_id, "found": as_json(found)})


def write_rejects(connection: Connection, job_id: int, found: list[Decision]) -> None:
    """Write new rejects; their records are still to be read from the file again."""
    connection.execute(queries.text("imports", "reject_unread_rows"), {"job_id": job_id, "found": as_json(found)})


def as_json(found: list[Decision]) -> str:
    return json.dumps({line: [reason.as_json() for reason in reasons] for line, reasons in found})
