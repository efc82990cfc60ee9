"""What the table refuses: whether an error is about a row, and which of many rows it is about.

No list of error codes can be complete, because a trigger raises what it likes. So an error is about a row unless it
says that the server cannot work now, and which row that is, is found by trying, inside the server: in small pieces, and
smaller ones where a piece is refused, each in a savepoint of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from bulk_pipelines.database import faults
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import tables
from bulk_pipelines.imports.plan import agreement

MISFITS = frozenset({"08", "0A", "22", "42"})
"""What PostgreSQL says, by the first two characters of the code, when it is sent other columns than it has."""

PIECE = 16
"""So many rows are tried together, then a quarter of them, then each: measured with two bad rows in a hundred."""
AT_ONCE = 1_000
CHUNK = sql.SQL("attempted.chunk")
"""In a statement that is attempted: the numbers of the rows that it is to write."""


@dataclass(frozen=True)
class Refusal:
    message: str
    constraint: str | None = None


SILENT = Refusal("a trigger or a rule of the table left it out, without an error")


@dataclass
class Attempt:
    """How many rows the table took, and what it said of the others."""

    written: int = 0
    refused: dict[Any, Refusal] = field(default_factory=dict)


def at_once(connection: Connection) -> None:
    """Deferred constraints of this transaction speak with the statement that breaks them, not at its commit, where
    nobody could tell which row it was."""
    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")


def about_rows(error: psycopg.Error) -> bool:
    """Whether the server refused what it was given, and is able to go on."""
    if faults.is_raised_on_purpose(error):
        return True
    return error.sqlstate not in {None, faults.PROTOCOL_VIOLATION} and not faults.passes(error)


def judge(connection: Connection, context: ImportContext, error: psycopg.Error) -> None:
    """Raises what is not about a row: the error itself, or that the table has come apart from its declaration."""
    if error.sqlstate is not None and error.sqlstate[:2] in MISFITS:
        agreement.check(connection, context.resource, context.mode)
    if not about_rows(error):
        raise error


def write(
    connection: Connection,
    context: ImportContext,
    statement: Callable[[sql.Composable], sql.Composed],
    kind: str,
    wanted: list[Any],
) -> Attempt:
    """Runs a statement, made for a list of rows, once for all of them; row by row when it is refused."""
    try:
        with connection.transaction(), tables.planned(connection, "seqscan"):
            return Attempt(connection.execute(statement(sql.Placeholder()), [wanted], prepare=False).rowcount)
    except psycopg.Error as error:
        judge(connection, context, error)
    return attempt(connection, statement(CHUNK), kind, wanted)


# What a RAISE said is about a row whatever its code; the last word of its place is the same in every language.
# OTHERS are not all others: an ASSERT and a cancelled query are named.
FUNCTION = """
<<attempted>>
DECLARE
    chunk {kind}[];
    place int := 1;
    size int := {piece};
    taken bigint;
    total bigint := 0;
    state text;
    context text;
BEGIN
    WHILE place <= cardinality(wanted) LOOP
        chunk := wanted[place : place + size - 1];
        BEGIN
            {statement};
            GET DIAGNOSTICS taken = ROW_COUNT;
            total := total + taken;
            place := place + size;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE OR QUERY_CANCELED THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                constraint_name = CONSTRAINT_NAME, context = PG_EXCEPTION_CONTEXT;
            IF (left(state, 2) = ANY ({classes}) OR state = ANY ({codes})) AND context !~ '^[^\n]*RAISE(\n|$)' THEN
                RAISE;
            END IF;
            IF size = 1 THEN
                number := chunk[1];
                RETURN NEXT;
                place := place + 1;
            ELSE
                size := size / 4;
                CONTINUE;
            END IF;
        END;
        WHILE size < {piece} AND (place - 1) % (size * 4) = 0 LOOP
            size := size * 4;
        END LOOP;
    END LOOP;
    number := NULL;
    written := total;
    RETURN NEXT;
END
"""


def attempt(connection: Connection, statement: sql.Composable, kind: str, wanted: list[Any]) -> Attempt:
    """Runs a statement for these numbers of rows, `CHUNK` in its text, and for no row that is refused."""
    body = sql.SQL(FUNCTION).format(
        kind=sql.SQL(kind),
        piece=PIECE,
        statement=statement,
        classes=sorted(faults.PASSING_CLASSES),
        codes=sorted(faults.PASSING_CODES),
    )
    head = sql.SQL(
        "CREATE FUNCTION pg_temp.attempt(wanted {kind}[])"
        " RETURNS TABLE (number {kind}, message text, constraint_name text, written bigint)"
        " LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS {body}"
    ).format(kind=sql.SQL(kind), body="#variable_conflict use_column\n" + body.as_string(connection))
    connection.execute(head, prepare=False)
    result = Attempt()
    query = sql.SQL("SELECT * FROM pg_temp.attempt(%s::{}[])").format(sql.SQL(kind))
    # A long array is copied whenever a piece is cut out of it.
    for begin in range(0, len(wanted), AT_ONCE):
        values = [wanted[begin : begin + AT_ONCE]]
        for number, message, constraint, written in connection.execute(query, values, prepare=False):
            if number is None:
                result.written += written
            else:
                result.refused[number] = Refusal(message or "refused without a word", constraint or None)
    connection.execute(sql.SQL("DROP FUNCTION pg_temp.attempt({}[])").format(sql.SQL(kind)))
    return result
