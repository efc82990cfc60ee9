"""Rows that the table objects to: found exactly, set aside with the reasons, and the others loaded.

The keys of the batch are compared with the table; what is free of objections goes in by COPY. When others write to the
table between the two, it is compared again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import errors, sql

from bulk_pipelines.imports import arrow, binary_copy, identifiers, rejects, tables, verdicts
from bulk_pipelines.imports.arrow import Column, Mask, Numbers, compute
from bulk_pipelines.imports.terms import Terms
from bulk_pipelines.imports.validation import Reject, Validated, with_origin
from bulk_pipelines.imports.verdicts import Verdict
from bulk_pipelines.resources.declaration import Key, Reference, Resource

Connection = psycopg.Connection[Any]

STAGED = sql.Identifier("pg_temp", "staged")

# Each attempt sees what others have committed meanwhile. That somebody comes in between so many times in a row does
# not happen by itself; then the batch as a whole is tried again later.
ATTEMPTS = 20
PASSING = (errors.UniqueViolation, errors.ForeignKeyViolation, errors.DeadlockDetected)
FAULTS = (errors.IntegrityError, errors.DataError, errors.RaiseException, errors.DeadlockDetected)


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
    persistently(
        connection, partial(is_passing, resource), lambda: compare_and_copy(connection, terms, validated, found)
    )
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
        ).format(tables.listed(map(sql.Identifier, names)), tables.table(resource))
    )
    columns = {name: arrow.column(validated.good, name) for name in names}
    columns["number"] = pa.array(np.arange(len(validated.lines)))
    ids = columns[resource.id_key.column]
    binary_copy.copy(connection, STAGED, binary_copy.by_id(binary_copy.encode(columns), ids))


@contextmanager
def planned(connection: Connection, *without: str) -> Iterator[None]:
    """Statements that are planned without some methods: the planner cannot know the size of what is being loaded."""
    for method in without:
        connection.execute(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(f"enable_{method}")))
    yield
    for method in without:
        connection.execute(sql.SQL("SET LOCAL {} TO DEFAULT").format(sql.Identifier(f"enable_{method}")))


def persistently(connection: Connection, passes: Callable[[psycopg.Error], bool], work: Callable[[], int]) -> int:
    """Does the work in a savepoint, and again as long as its errors are such that pass."""
    for left in reversed(range(ATTEMPTS)):
        try:
            with connection.transaction():
                return work()
        except PASSING as error:
            if not left or not passes(error):
                raise
    raise AssertionError("the last attempt returns or raises")


def is_passing(resource: Resource, error: psycopg.Error) -> bool:
    """Whether another transaction came in between, and another look at the table tells which row is at fault: the
    constraint is one that is declared."""
    declared = {key.constraint for key in resource.keys} | {each.constraint for each in resource.references}
    return isinstance(error, errors.DeadlockDetected) or error.diag.constraint_name in declared


def compare_and_copy(connection: Connection, terms: Terms, validated: Validated, found: Objections) -> int:
    found.refused.clear()
    with planned(connection, "seqscan"):
        for key in terms.resource.keys:
            found.own[key.column], found.held[key.column] = taken(connection, terms, key, found.count)
        for reference in terms.resource.references:
            found.missing[reference.column] = missing(connection, reference, found.count)
    free = np.flatnonzero(~found.any[validated.encoded.order])
    return copy_free(connection, terms, validated, free, found)


def taken(connection: Connection, terms: Terms, key: Key, count: int) -> tuple[Mask, Mask]:
    """Which rows have a key that is in the table: from this very import, or of other origin."""
    is_own = tables.lookup(terms.resource, key, "t", "s", tables.own(terms, "t"))
    query = sql.SQL("SELECT * FROM (SELECT s.number, {} AS own FROM {} s) found WHERE own IS NOT NULL").format(
        is_own, STAGED
    )
    own, held = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    for number, mine in connection.execute(query, prepare=False):
        (own if mine else held)[number] = True
    return own, held


def missing(connection: Connection, reference: Reference, count: int) -> Mask:
    """Which rows refer to a row that does not exist."""
    query = sql.SQL("SELECT s.number FROM {} s WHERE {}").format(STAGED, tables.leads_nowhere(reference, "s"))
    found = np.zeros(count, dtype=bool)
    found[[number for (number,) in connection.execute(query, prepare=False)]] = True
    return found


def copy_free(connection: Connection, terms: Terms, validated: Validated, places: Numbers, found: Objections) -> int:
    """Loads the encoded rows at these places; how many. If the table objects for a reason that nobody declared, closes
    in on the rows that it objects to, and leaves them out."""
    if not len(places):
        return 0
    try:
        with connection.transaction():
            binary_copy.copy(connection, tables.table(terms.resource), validated.encoded.take(places))
    except FAULTS as error:
        if is_passing(terms.resource, error):
            raise
        if len(places) == 1:
            found.refused[int(validated.encoded.order[places[0]])] = error.diag.message_primary or "refused"
            return 0
        halves = np.array_split(places, 2)
        return sum(copy_free(connection, terms, validated, half, found) for half in halves)
    return len(places)


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
