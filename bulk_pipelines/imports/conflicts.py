"""Rows that the table objects to: found exactly, set aside with the reasons, and the others loaded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import psycopg
from psycopg import errors, sql

from bulk_pipelines.imports import arrow, binary_copy, identifiers, rejects, tables, verdicts
from bulk_pipelines.imports.arrow import Column, Numbers, compute
from bulk_pipelines.imports.terms import Terms
from bulk_pipelines.imports.validation import Reject, Validated
from bulk_pipelines.imports.verdicts import Verdict
from bulk_pipelines.resources.declaration import Key, Reference, Resource

Connection = psycopg.Connection[Any]

STAGED = sql.Identifier("pg_temp", "staged")
CLEAN = sql.SQL("s.doubled = '{}' AND s.held = '{}' AND s.missing = '{}' AND s.refused IS NULL")

# Each attempt sees what others have committed meanwhile. That somebody comes in between so many times in a row does
# not happen by itself; then the batch as a whole is tried again later.
ATTEMPTS = 20
PASSING = (errors.UniqueViolation, errors.ForeignKeyViolation, errors.DeadlockDetected)
FAULTS = (errors.IntegrityError, errors.DataError, errors.RaiseException, errors.DeadlockDetected)


def insert(connection: Connection, terms: Terms, validated: Validated) -> int:
    """Loads the rows that can be loaded. The others wait aside, noted as rejects; how many they are."""
    staged = (
        "CREATE TEMP TABLE staged (LIKE {} INCLUDING DEFAULTS, doubled text[] NOT NULL DEFAULT '{{}}') ON COMMIT DROP"
    )
    connection.execute(sql.SQL(staged).format(tables.aside(terms.resource)))
    binary_copy.copy(connection, STAGED, validated.encoded)
    mark_doubled(connection, terms.resource, validated)
    with row_by_row(connection):
        persistently(
            connection, partial(is_passing, terms.resource), lambda: judge_and_insert(connection, terms, validated)
        )
    refused = set_aside(connection, terms, validated)
    connection.execute(sql.SQL("DROP TABLE {}").format(STAGED))
    return refused


@contextmanager
def row_by_row(connection: Connection) -> Iterator[None]:
    """A few rows are joined with a table of any size, and no statistics know of them: always through its indexes."""
    names = ("enable_hashjoin", "enable_mergejoin", "enable_seqscan")
    connection.execute(sql.SQL("; ").join(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(each)) for each in names))
    yield
    connection.execute(
        sql.SQL("; ").join(sql.SQL("SET LOCAL {} TO DEFAULT").format(sql.Identifier(each)) for each in names)
    )


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


def mark_doubled(connection: Connection, resource: Resource, validated: Validated) -> None:
    """Of the records of one key in the batch, all but the first."""
    for key in resource.keys:
        lines = repeated(key, arrow.column(validated.good, key.column), validated.lines)
        if len(lines):
            note = sql.SQL("UPDATE {} SET doubled = array_append(doubled, {}) WHERE import_line = ANY(%s)")
            connection.execute(note.format(STAGED, key.column), [lines.tolist()])


def repeated(key: Key, values: Column, lines: Numbers) -> Numbers:
    """The lines of values that stood in an earlier one."""
    if key.ignores_case:
        values = compute.ascii_lower(values)
    # Codes are given out in the order of first appearance: each new value has a higher one than all before.
    codes = values.dictionary_encode().indices.to_numpy()
    highest = np.concatenate(([-1], np.maximum.accumulate(codes)[:-1]))
    again: Numbers = lines[codes <= highest]
    return again


def judge_and_insert(connection: Connection, terms: Terms, validated: Validated) -> int:
    for key in terms.resource.keys:
        mark_taken(connection, terms, key)
    for reference in terms.resource.references:
        mark_missing(connection, reference)
    return insert_between(connection, terms.resource, int(validated.lines[0]), int(validated.lines[-1]))


def mark_taken(connection: Connection, terms: Terms, key: Key) -> None:
    """Notes which rows have a key that is in the table: from this very import, or of other origin."""
    connection.execute(
        sql.SQL(
            """
            UPDATE {staged} s
            SET doubled = CASE WHEN {own} THEN array_append(s.doubled, {name}) ELSE s.doubled END,
                held = CASE WHEN {own} THEN s.held ELSE array_append(s.held, {name}) END
            FROM {table} t WHERE {same}
            """
        ).format(
            staged=STAGED,
            own=tables.own(terms, "t"),
            name=key.column,
            table=tables.table(terms.resource),
            same=tables.same(key, "t", "s"),
        ),
        prepare=False,
    )


def mark_missing(connection: Connection, reference: Reference) -> None:
    """Notes which rows refer to a row that does not exist."""
    connection.execute(
        sql.SQL(
            """
            UPDATE {staged} s SET missing = array_append(s.missing, {name})
            WHERE NOT EXISTS (SELECT FROM {other} t WHERE t.id = s.{column})
            """
        ).format(
            staged=STAGED,
            name=reference.column,
            other=sql.Identifier(reference.resource),
            column=sql.Identifier(reference.column),
        ),
        prepare=False,
    )


def insert_between(connection: Connection, resource: Resource, first: int, last: int) -> int:
    """Inserts the clean rows of these lines; how many. If the table objects for a reason nobody declared, closes in on
    the rows that it objects to, and leaves them out."""
    insert = sql.SQL(
        "INSERT INTO {} ({}) SELECT {} FROM {} s WHERE {} AND s.import_line BETWEEN %s AND %s ORDER BY s.id"
    )
    statement = insert.format(
        tables.table(resource), tables.columns(resource), tables.columns(resource, "s"), STAGED, CLEAN
    )
    try:
        with connection.transaction():
            return connection.execute(statement, [first, last], prepare=False).rowcount
    except FAULTS as error:
        if is_passing(resource, error):
            raise
        if first == last:
            note = sql.SQL("UPDATE {} SET refused = %s WHERE import_line = %s").format(STAGED)
            connection.execute(note, [error.diag.message_primary, first])
            return 0
        middle = (first + last) // 2
        return insert_between(connection, resource, first, middle) + insert_between(
            connection, resource, middle + 1, last
        )


def set_aside(connection: Connection, terms: Terms, validated: Validated) -> int:
    """Moves what was not inserted to where it waits for the end of the import, and notes it as rejected until then."""
    resource = terms.resource
    names = sql.SQL("{}, held, missing, refused").format(tables.columns(resource))
    connection.execute(
        sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} s WHERE NOT ({})").format(
            tables.aside(resource), names, names, STAGED, CLEAN
        )
    )
    select = "SELECT import_line, doubled, held, missing, refused FROM {} s WHERE NOT ({}) ORDER BY import_line"
    found = connection.execute(sql.SQL(select).format(STAGED, CLEAN)).fetchall()
    rows = np.searchsorted(validated.lines, [line for line, *_ in found])
    shown = texts(resource, validated, rows)
    refused = []
    for place, (row, (line, doubled, held, missing, reason)) in enumerate(zip(rows.tolist(), found, strict=True)):
        verdict = Verdict(dict.fromkeys(doubled), frozenset(held), frozenset(missing), reason)
        values = {name: column[place] for name, column in shown.items()}
        reasons = verdicts.reasons(resource, verdict, values, "line")
        refused.append(Reject(line, validated.block.raw(int(validated.records[row])), reasons))
    rejects.store(connection, terms.job_id, refused)
    return len(refused)


def texts(resource: Resource, validated: Validated, rows: Numbers) -> dict[str, list[str | None]]:
    """The values that reasons show, of some rows."""
    found = {}
    for name in verdicts.telling_columns(resource):
        values = arrow.column(validated.good, name).take(rows)
        found[name] = (identifiers.to_text(values) if values.type == identifiers.BINARY else values).to_pylist()
    return found
