"""Rows that the table objects to: found exactly, set aside with the reasons, and the others loaded.

The keys of the batch are compared with the table; what is free of objections goes in by COPY. What the table refuses
all the same, for a reason that nobody declared or because others came in between, is told row by row (`writing`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import errors, sql

from bulk_pipelines.imports import arrow, binary_copy, identifiers, rejects, tables, verdicts, writing
from bulk_pipelines.imports.arrow import Column, Mask, compute
from bulk_pipelines.imports.terms import Terms
from bulk_pipelines.imports.validation import Reject, Validated, with_origin
from bulk_pipelines.imports.verdicts import Verdict
from bulk_pipelines.resources.declaration import Key, Reference, Resource

Connection = psycopg.Connection[Any]

STAGED = sql.Identifier("pg_temp", "staged")
AMONG = sql.SQL("coalesce(s.number = ANY (%(rows)s::bigint[]), true)")
"""Some rows; all of them when none are named."""

# So many deadlocks in a row do not happen by themselves; then the batch as a whole is tried again later.
ATTEMPTS = 20


@dataclass
class Objections:
    """What stands against the rows of a batch, by their numbers."""

    count: int
    repeated: dict[str, Mask]
    """By key: another row of the batch, further up in the file, has it too."""
    own: dict[str, Mask] = field(default_factory=dict)
    """By key: a row that this import has loaded has it too."""
    held: dict[str, Mask] = field(default_factory=dict)
    """By key: a row of other origin has it."""
    missing: dict[str, Mask] = field(default_factory=dict)
    """By column: the row it refers to does not exist."""
    refused: dict[int, str] = field(default_factory=dict)
    """What else the table said."""

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


def insert(connection: Connection, terms: Terms, validated: Validated) -> int:
    """Loads the rows that can be loaded. The others wait aside, noted as rejects; how many they are."""
    resource = terms.resource
    found = Objections(
        len(validated.lines),
        {key.column: repeated(key, arrow.column(validated.good, key.column)) for key in resource.keys},
    )
    stage(connection, resource, validated)
    persistently(connection, (errors.DeadlockDetected,), lambda: compare_and_write(connection, terms, validated, found))
    connection.execute(sql.SQL("DROP TABLE {}").format(STAGED))
    return set_aside(connection, terms, validated, found)


def repeated(key: Key, values: Column) -> Mask:
    """Which values stood further up already."""
    if key.ignores_case:
        values = compute.ascii_lower(values)
    # Codes are given out in the order of first appearance: each new value has a higher one than all before.
    codes = values.dictionary_encode().indices.to_numpy()
    again: Mask = codes <= np.concatenate(([-1], np.maximum.accumulate(codes)[:-1]))
    return again


def stage(connection: Connection, resource: Resource, validated: Validated) -> None:
    """The keys and references of the batch, numbered, in a temporary table."""
    names = verdicts.telling_columns(resource)
    connection.execute(
        sql.SQL(
            "CREATE TEMP TABLE staged ON COMMIT DROP AS SELECT 0::bigint AS number, {} FROM {} WITH NO DATA"
        ).format(tables.plain(resource, names), tables.table(resource))
    )
    columns = {name: arrow.column(validated.good, name) for name in names}
    columns["number"] = pa.array(np.arange(len(validated.lines)))
    ids = columns[resource.id_key.column]
    binary_copy.copy(connection, STAGED, binary_copy.by_id(binary_copy.encode(columns), ids))


def persistently(connection: Connection, passing: tuple[type[psycopg.Error], ...], work: Callable[[], int]) -> int:
    """Does the work in a savepoint, and again as long as it ends in such errors."""
    for left in reversed(range(ATTEMPTS)):
        try:
            with connection.transaction():
                return work()
        except passing:
            if not left:
                raise
    raise AssertionError("the last attempt returns or raises")


def compare_and_write(connection: Connection, terms: Terms, validated: Validated, found: Objections) -> int:
    found.refused.clear()
    compare(connection, terms, found)
    free = np.flatnonzero(~found.any[validated.encoded.order])
    rows = validated.encoded.take(free)
    refused = writing.write(connection, terms, tables.table(terms.resource), rows, validated.lines[rows.order])
    if refused:
        messages = {row: refused[line].message for row in rows.order if (line := int(validated.lines[row])) in refused}
        # Somebody who came in between is told apart by another look.
        compare(connection, terms, found, list(messages))
        declared = found.any
        found.refused = {row: message for row, message in messages.items() if not declared[row]}
    return len(free) - len(refused)


def compare(connection: Connection, terms: Terms, found: Objections, rows: list[int] | None = None) -> None:
    """Notes what of the table stands against these rows, or against all."""
    with tables.planned(connection, "seqscan"):
        for key in terms.resource.keys:
            own, held = taken(connection, terms, key, found.count, rows)
            note(found.own, key.column, own, rows)
            note(found.held, key.column, held, rows)
        for reference in terms.resource.references:
            note(found.missing, reference.column, missing(connection, reference, found.count, rows), rows)


def note(masks: dict[str, Mask], name: str, found: Mask, rows: list[int] | None) -> None:
    if rows is None:
        masks[name] = found
    else:
        masks[name][rows] = found[rows]


def taken(
    connection: Connection, terms: Terms, key: Key, count: int, rows: list[int] | None = None
) -> tuple[Mask, Mask]:
    """Which rows have a key that is in the table: from this very import, or of other origin."""
    is_own = tables.lookup(terms.resource, key, "t", "s", tables.own(terms, "t"))
    query = sql.SQL("SELECT * FROM (SELECT s.number, {} AS own FROM {} s WHERE {}) found WHERE own IS NOT NULL").format(
        is_own, STAGED, AMONG
    )
    own, held = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    for number, mine in connection.execute(query, {"rows": rows}, prepare=False):
        (own if mine else held)[number] = True
    return own, held


def missing(connection: Connection, reference: Reference, count: int, rows: list[int] | None = None) -> Mask:
    """Which rows refer to a row that does not exist."""
    query = sql.SQL("SELECT s.number FROM {} s WHERE {} AND {}").format(
        STAGED, AMONG, tables.leads_nowhere(reference, "s")
    )
    found = np.zeros(count, dtype=bool)
    found[[number for (number,) in connection.execute(query, {"rows": rows}, prepare=False)]] = True
    return found


def set_aside(connection: Connection, terms: Terms, validated: Validated, found: Objections) -> int:
    """Puts what was not loaded where it waits for the end of the import, and notes it as rejected until then."""
    rows = np.flatnonzero(found.any)
    if not len(rows):
        return 0
    judged = [found.of(row) for row in rows.tolist()]
    columns = with_origin(terms, validated.good.take(rows), validated.lines[rows])
    columns["held"] = pa.array([sorted(verdict.held) for verdict in judged], pa.list_(pa.string()))
    columns["missing"] = pa.array([sorted(verdict.missing) for verdict in judged], pa.list_(pa.string()))
    columns["refused"] = pa.array([verdict.refused for verdict in judged], pa.string())
    binary_copy.copy(connection, tables.aside(terms.resource), binary_copy.encode(columns))
    shown = texts(terms.resource, columns)
    refused = [
        Reject(
            int(validated.lines[row]),
            validated.block.raw(int(validated.records[row])),
            verdicts.reasons(terms.resource, verdict, {name: values[place] for name, values in shown.items()}, "line"),
        )
        for place, (row, verdict) in enumerate(zip(rows.tolist(), judged, strict=True))
    ]
    rejects.store(connection, terms.job_id, refused)
    return len(refused)


def texts(resource: Resource, columns: dict[str, Column]) -> dict[str, list[str | None]]:
    """The values that reasons show."""
    found = {name: columns[name] for name in verdicts.telling_columns(resource)}
    return {
        name: (identifiers.to_text(values) if values.type == identifiers.BINARY else values).to_pylist()
        for name, values in found.items()
    }
