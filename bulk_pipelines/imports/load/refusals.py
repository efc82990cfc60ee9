"""What the table refuses: whether an error is about a row, and about which of many rows.

No list of error codes can be complete, because a trigger raises what it likes. So an error counts as being about a row
unless it says that the server cannot work now. Which row it is about is found by trying, inside the server: the rows
are written in small pieces, and in smaller ones where a piece is refused, each piece in a savepoint of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.database import faults, namespaces
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import tables
from bulk_pipelines.imports.plan import agreement

MISFITS = frozenset({"08", "0A", "22", "42"})
"""The first two characters of the codes with which PostgreSQL answers when it is sent other columns than it has."""

PIECE = 16
"""How many rows are tried together; then a quarter of them is tried, then each row. This was measured to be good with
two bad rows in a hundred."""
AT_ONCE = 1_000
CHUNK = sql.SQL("attempted.chunk")
"""Stands, in the text of a statement that is attempted, for the array of the lines of the rows to write."""


@dataclass(frozen=True)
class Refusal:
    message: str
    constraint: str | None = None

    @property
    def said(self) -> str:
        """What the table said, with the name of the constraint."""
        named = self.constraint is None or self.constraint in self.message
        return self.message if named else f"{self.message} ({self.constraint})"


SILENT = Refusal("a trigger or a rule of the table left it out, without an error")


@dataclass
class Attempt:
    """How many rows the table took, and what it said of the others, by their lines."""

    written: int = 0
    refused: dict[int, Refusal] = field(default_factory=dict)


def at_once(connection: Connection) -> None:
    """Let deferred constraints of this transaction fail with the statement that breaks them. If they failed at the
    commit, nobody could tell which row it was."""
    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")


def about_rows(error: psycopg.Error) -> bool:
    """Tell whether the server refused the rows it was given, and is itself able to go on."""
    if faults.is_raised_on_purpose(error):
        return True
    return error.sqlstate not in {None, faults.PROTOCOL_VIOLATION} and not faults.passes(error)


def judge(connection: Connection, context: ImportContext, error: psycopg.Error) -> None:
    """Raise the error if it is not about a row, or `InvalidInput` if the table no longer fits its declaration."""
    check_table(connection, context, error)
    if not about_rows(error):
        raise error


@contextmanager
def explained(pool: Engine, context: ImportContext) -> Iterator[None]:
    """Say what has become of the table, and what to do about it, if an error in this block comes of that."""
    try:
        yield
    except psycopg.Error as error:
        with transaction(pool) as connection:
            check_table(connection, context, error)
        raise


def check_table(connection: Connection, context: ImportContext, error: psycopg.Error) -> None:
    """Raise `InvalidInput` if the error comes of a table that no longer fits its declaration."""
    if error.sqlstate is not None and error.sqlstate[:2] in MISFITS:
        agreement.check(connection, context.resource, context.mode)


def write(
    connection: Connection,
    context: ImportContext,
    statement: Callable[[sql.Composable], sql.Composed],
    wanted: list[int],
    *,
    exact: bool = False,
) -> Attempt:
    """Write the wanted rows, named by their lines, with one run of the statement that is made for them. If the table
    refuses it, find the refused rows by trying, and write the others. If it is `exact`, rows that are left out without
    an error count as refused."""
    try:
        with namespaces.theirs(connection) as made, tables.planned(connection, "seqscan"):
            # The statement may name the lines more than once.
            command = statement(sql.Placeholder("wanted"))
            written = connection.execute(command, {"wanted": wanted}, prepare=False).rowcount
            if exact and written < len(wanted):
                raise psycopg.Rollback(made)
            return Attempt(written)
    except psycopg.Error as error:
        judge(connection, context, error)
    return attempt(connection, statement(CHUNK), wanted, exact=exact)


# An error that a RAISE made is about a row, whatever its code. It is recognised by the word RAISE at the end of the
# first line of its context: that word is the same in every language of the server. OTHERS does not include a failed
# ASSERT or a cancelled query, so both are named.
FUNCTION = """
<<attempted>>
DECLARE
    chunk bigint[];
    path text := current_setting('search_path');
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
            IF {exact} AND taken < cardinality(chunk) THEN
                RAISE EXCEPTION USING MESSAGE = {silent};
            END IF;
            PERFORM set_config('search_path', path, false);
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


def attempt(connection: Connection, statement: sql.Composable, wanted: list[int], *, exact: bool = False) -> Attempt:
    """Run a statement for these rows, piece by piece, without the rows that are refused. The statement has `CHUNK` in
    the place of the lines of a piece."""
    body = sql.SQL(FUNCTION).format(
        exact=exact,
        silent=SILENT.message,
        piece=PIECE,
        statement=statement,
        classes=sorted(faults.PASSING_CLASSES),
        codes=sorted(faults.PASSING_CODES),
    )
    head = sql.SQL(
        "CREATE FUNCTION pg_temp.attempt(wanted bigint[])"
        " RETURNS TABLE (number bigint, message text, constraint_name text, written bigint)"
        " LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS {body}"
    ).format(body="#variable_conflict use_column\n" + body.as_string(connection))
    connection.execute(head, prepare=False)
    result = Attempt()
    query = sql.SQL("SELECT * FROM pg_temp.attempt(%s::bigint[])")
    with namespaces.theirs(connection):
        # PostgreSQL copies a long array whenever a piece is cut out of it, so it gets no long ones.
        for begin in range(0, len(wanted), AT_ONCE):
            values = [wanted[begin : begin + AT_ONCE]]
            for number, message, constraint, written in connection.execute(query, values, prepare=False):
                if number is None:
                    result.written += written
                else:
                    result.refused[number] = Refusal(message or "refused without a word", constraint or None)
    connection.execute("DROP FUNCTION pg_temp.attempt(bigint[])")
    return result
