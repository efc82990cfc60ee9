"""Loading a batch to which the table objects: the rows it objects to are set aside with the reasons, the others loaded.

The keys and references of the batch are compared with the table, and the rows without an objection go in by COPY. If
the table refuses some of these all the same, for a reason that nobody declared or because others changed the table in
between, the refused rows are found by trying (`writing`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import errors, sql

from bulk_pipelines.columns import arrow, binary_copy, text_copy
from bulk_pipelines.columns.arrow import Column, Mask, compute
from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import checks, conflict_reasons, rejects, tables, writing
from bulk_pipelines.imports.load.checks import Check
from bulk_pipelines.imports.load.conflict_reasons import Verdict
from bulk_pipelines.imports.validate import rows
from bulk_pipelines.imports.validate.rows import with_origin
from bulk_pipelines.imports.validate.validation import Reject, Validated
from bulk_pipelines.resources.declaration import Key, Reference, Resource

STAGED = sql.Identifier("pg_temp", "staged")
AMONG = sql.SQL("coalesce(s.import_line = ANY (%(rows)s::bigint[]), true)")
"""The condition for the rows of a list; without a list it holds for all rows."""

# So many deadlocks in a row do not happen by chance. After the last attempt the error is raised, and the batch as a
# whole is tried again later.
ATTEMPTS = 20


@dataclass
class Objections:
    """What stands against the rows of a batch. A mask has one place for each row, by its number."""

    count: int
    repeated: dict[str, Mask]
    """The rows, by each key, whose key another row of the batch has, too, which stands further up in the file."""
    own: dict[str, Mask] = field(default_factory=dict)
    """The rows, by each key, whose key is in the table, in a row that this import has loaded and nobody has changed."""
    held: dict[str, Mask] = field(default_factory=dict)
    """The rows, by each key, whose key is in the table, in a row of other origin."""
    missing: dict[str, Mask] = field(default_factory=dict)
    """The rows, by each reference, that refer to a row which does not exist."""
    refused: dict[int, str] = field(default_factory=dict)
    """What else the table said, by the numbers of the rows."""

    @property
    def any(self) -> Mask:
        found = np.zeros(self.count, dtype=bool)
        for masks in (self.repeated, self.own, self.held, self.missing):
            for mask in masks.values():
                found |= mask
        found[list(self.refused)] = True
        return found

    def of(self, row: int) -> Verdict:
        doubled = [name for name in self.repeated if self.repeated[name][row] or self.own[name][row]]
        return Verdict(
            dict.fromkeys(doubled),
            frozenset(name for name, mask in self.held.items() if mask[row]),
            frozenset(name for name, mask in self.missing.items() if mask[row]),
            self.refused.get(row),
        )


def insert(connection: Connection, context: ImportContext, validated: Validated) -> int:
    """Load the rows that can be loaded. Set the others aside, note them as rejects, and return how many they are."""
    resource = context.resource
    found = Objections(
        len(validated.lines),
        {
            key.name: repeated(key, [arrow.column(validated.good, name) for name in key.columns])
            for key in resource.keys
        },
    )
    known = checks.of_table(connection, resource)
    stage(connection, resource, validated, checks.columns_of(known))
    persistently(
        connection, (errors.DeadlockDetected,), lambda: compare_and_write(connection, context, validated, found, known)
    )
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(STAGED))
    return set_aside(connection, context, validated, found)


def repeated(key: Key, columns: list[Column]) -> Mask:
    """Tell which keys already stood further up. A key that lacks a value is like no other."""
    if key.ignores_case:
        columns = [compute.ascii_lower(values) for values in columns]
    missing = np.zeros(len(columns[0]), dtype=bool)
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for values in columns:
        missing |= values.is_null().to_numpy(zero_copy_only=False)
        encoded = values.dictionary_encode()
        own = compute.fill_null(encoded.indices, 0).to_numpy().astype(np.int64)
        codes = codes * (len(encoded.dictionary) + 1) + own
        if len(columns) > 1:
            codes = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    # Codes are given out in the order of first appearance: each new value has a higher one than all before.
    codes = pa.array(codes, mask=missing).dictionary_encode().indices.fill_null(-1).to_numpy()
    again: Mask = codes <= np.concatenate(([-1], np.maximum.accumulate(codes)[:-1]))
    return again & ~missing


def stage(connection: Connection, resource: Resource, validated: Validated, more: list[str]) -> None:
    """Put the keys and references of the batch, and the columns that are named, into a temporary table with the numbers
    of their rows."""
    names = list(dict.fromkeys([*conflict_reasons.telling_columns(resource), *more]))
    if not names:
        return
    with namespaces.theirs(connection):
        connection.execute(
            sql.SQL(
                "CREATE TEMP TABLE staged ON COMMIT DROP AS SELECT {}, 0::bigint AS import_line FROM {} WITH NO DATA"
            ).format(tables.plain(resource, names), tables.table(resource))
        )
    columns = {name: arrow.column(validated.good, name) for name in names}
    columns["import_line"] = pa.array(np.arange(len(validated.lines)))
    binary_copy.copy(connection, STAGED, rows.encoded(resource, columns))


def persistently(connection: Connection, passing: tuple[type[psycopg.Error], ...], work: Callable[[], int]) -> int:
    """Do the work in a savepoint, and do it again if it ends in one of the passing errors, up to `ATTEMPTS` times."""
    for left in reversed(range(ATTEMPTS)):
        try:
            with connection.transaction():
                return work()
        except passing:
            if not left:
                raise
    raise AssertionError("the last attempt returns or raises")


def compare_and_write(
    connection: Connection, context: ImportContext, validated: Validated, found: Objections, known: list[Check]
) -> int:
    found.refused.clear()
    compare(connection, context, found)
    declared = found.any
    broken = checks.broken(connection, context.resource, known, STAGED)
    found.refused = {row: refusal.said for row, refusal in broken.items() if not declared[row]}
    free = np.flatnonzero(~found.any[validated.encoded.order])
    batch = validated.encoded.take(free)
    refused = writing.write(connection, context, validated, batch)
    if refused:
        messages = {row: refused[line].said for row in batch.order if (line := int(validated.lines[row])) in refused}
        # Another comparison tells which of these rows were refused because others changed the table in between.
        compare(connection, context, found, list(messages))
        declared = found.any
        found.refused |= {row: message for row, message in messages.items() if not declared[row]}
    return len(free) - len(refused)


def compare(connection: Connection, context: ImportContext, found: Objections, rows: list[int] | None = None) -> None:
    """Note what stands in the table against these rows, or against all rows if none are named."""
    with tables.planned(connection, "seqscan"):
        for key in context.resource.keys:
            own, held = taken(connection, context, key, found.count, rows)
            note(found.own, key.name, own, rows)
            note(found.held, key.name, held, rows)
        for reference in context.resource.references:
            note(found.missing, reference.name, missing(connection, reference, found.count, rows), rows)


def note(masks: dict[str, Mask], name: str, found: Mask, rows: list[int] | None) -> None:
    if rows is None:
        masks[name] = found
    else:
        masks[name][rows] = found[rows]


def taken(
    connection: Connection, context: ImportContext, key: Key, count: int, rows: list[int] | None = None
) -> tuple[Mask, Mask]:
    """Tell which rows have a key that is in the table: first those whose key a row of this very import has, then those
    whose key a row of other origin has."""
    # The ledger of an import into a table without provenance is read when everything is loaded. Until then, whatever is
    # in the table counts as its own.
    mine = sql.SQL("true") if tables.keeps_ledger(context) else tables.own(context, key, "t")
    query = sql.SQL(
        "SELECT * FROM (SELECT s.import_line, {} AS own FROM {} s WHERE {}) found WHERE own IS NOT NULL"
    ).format(tables.lookup(context.resource, key, "t", "s", mine), STAGED, AMONG)
    own, held = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    for number, mine in connection.execute(query, {"rows": rows}, prepare=False):
        (own if mine else held)[number] = True
    return own, held


def missing(connection: Connection, reference: Reference, count: int, rows: list[int] | None = None) -> Mask:
    """Tell which rows refer to a row that does not exist."""
    query = sql.SQL("SELECT s.import_line FROM {} s WHERE {} AND {}").format(
        STAGED, AMONG, tables.leads_nowhere(reference, "s")
    )
    found = np.zeros(count, dtype=bool)
    found[[number for (number,) in connection.execute(query, {"rows": rows}, prepare=False)]] = True
    return found


def set_aside(connection: Connection, context: ImportContext, validated: Validated, found: Objections) -> int:
    """Set aside the rows that were not loaded, where they wait for the end of the import, and note them as rejected
    until then. Return how many they are."""
    places = np.flatnonzero(found.any)
    if not len(places):
        return 0
    judged = [found.of(row) for row in places.tolist()]
    columns = with_origin(context, validated.good.take(places), validated.lines[places])
    columns["import_held"] = pa.array([sorted(verdict.held) for verdict in judged], pa.list_(pa.string()))
    columns["import_missing"] = pa.array([sorted(verdict.missing) for verdict in judged], pa.list_(pa.string()))
    columns["import_refused"] = pa.array([verdict.refused for verdict in judged], pa.string())
    binary_copy.copy(connection, tables.aside(context), rows.encoded(context.resource, columns))
    shown = texts(context.resource, columns)
    refused = [
        Reject(
            int(validated.lines[row]),
            validated.block.raw(int(validated.records[row])),
            conflict_reasons.reasons(
                context.resource, verdict, {name: values[place] for name, values in shown.items()}, "line"
            ),
        )
        for place, (row, verdict) in enumerate(zip(places.tolist(), judged, strict=True))
    ]
    rejects.store(connection, context.job_id, refused)
    return len(refused)


def texts(resource: Resource, columns: dict[str, Column]) -> dict[str, list[str | None]]:
    """Return, as text, the values that reasons show."""
    return {name: text_copy.as_text(columns[name]).to_pylist() for name in conflict_reasons.telling_columns(resource)}
