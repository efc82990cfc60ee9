"""Loading a batch in the caller's transaction: its good rows and its rejects, each of them once.

Inserting is optimistic: the rows go straight into the table by COPY. Only if the table objects do they go through a
temporary table, which tells to which rows it objects, and why (`conflicts`). What depends on the whole file, such as
which of two records with one key comes first, is put right at the end (`reconcile`); the records needed for that wait
in the `aside` table. All good records of upserts and validations wait there.
"""

from dataclasses import dataclass

import psycopg
from psycopg import errors

from bulk_pipelines.columns import binary_copy
from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.load import (
    conflicts,
    losses,
    refusals,
    rejects,
    same_table,
    tables,
    weeding,
    writing,
)
from bulk_pipelines.imports.validate.validation import Validated


@dataclass(frozen=True)
class BatchResult:
    counts: Counts
    conflicted: bool = False
    """Whether the table objected to some rows. Then the next batch had better not be copied straight into it."""


def load_batch(
    connection: Connection, context: ImportContext, validated: Validated, *, direct: bool = True
) -> BatchResult:
    """Write the good rows and the rejects of a block. The caller commits them together with its checkpoint."""
    if context.mode is not Mode.INSERT:
        return set_aside(connection, context, validated)
    refusals.at_once(connection)
    result = insert(connection, context, validated, direct=direct)
    same_table.check(connection, context)
    return result


def insert(connection: Connection, context: ImportContext, validated: Validated, *, direct: bool) -> BatchResult:
    """Write the good rows to the table, and the rejects."""
    is_copied = False
    if direct and len(validated.lines) and not losses.possible(connection, context.resource, validated.doubtful):
        is_copied = copied(connection, context, validated)
    if not is_copied:
        validated = weeding.weeded(connection, context, validated)
    rejects.store(connection, context.job_id, validated.rejects)
    good, bad = len(validated.lines), len(validated.rejects)
    if is_copied or not good:
        return BatchResult(Counts(read=good + bad, loaded=good, rejected=bad))
    refused = conflicts.insert(connection, context, validated)
    counts = Counts(read=good + bad, loaded=good - refused, rejected=bad + refused)
    return BatchResult(counts, conflicted=bool(refused))


def set_aside(connection: Connection, context: ImportContext, validated: Validated) -> BatchResult:
    """Write the good rows to the place where they wait for the end of the file."""
    if validated.unread:
        # A value that PostgreSQL cannot read would spoil the whole COPY.
        validated = weeding.weeded(connection, context, validated)
    rejects.store(connection, context.job_id, validated.rejects)
    good, bad = len(validated.lines), len(validated.rejects)
    if good:
        binary_copy.copy(connection, tables.aside(context), validated.encoded)
    return BatchResult(Counts(read=good + bad, rejected=bad, waiting=good))


def copied(connection: Connection, context: ImportContext, validated: Validated) -> bool:
    """Copy all rows into the table, or none of them, and tell whether the table took them."""
    try:
        with namespaces.theirs(connection) as savepoint:
            if writing.copied(connection, context, validated, validated.encoded) == len(validated.lines):
                return True
            raise psycopg.Rollback(savepoint)
    except psycopg.Error as error:
        if not isinstance(error, errors.DeadlockDetected):
            refusals.judge(connection, context, error)
    return False
