"""Planning an export so that all its rows are of one state of the database, however many connections read them. They
share an exported snapshot, as those of pg_dump do."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.database import holding, namespaces, pool
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import InvalidInput, Unavailable
from bulk_pipelines.exports.read import query
from bulk_pipelines.exports.read.listening import listening
from bulk_pipelines.exports.read.preview import Record, first_rows
from bulk_pipelines.exports.request import QUERY, ExportRequest

PART = 4 << 20
"""Bytes of the table that one part covers: enough that cutting costs little, and few enough to be held ready."""
ROWS_WORTH_CUTTING = 100_000

LASTING = {"0A", "22", "25", "42"}
"""The classes of PostgreSQL's errors that say that a query is wrong: it asks for what there is not, for what a
value does not allow, or for a change."""

BEGIN = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


@dataclass(frozen=True)
class Plan:
    """What the connections of an export need to read the same rows."""

    snapshot: str
    table: str
    """The table as it is written in SQL; empty if the rows are those of a query."""
    select: str
    count: str
    """`select` and `count` are composed statements: their values are quoted in them, their blocks still have to be put
    in."""
    expected_rows: int
    """The planner's estimate."""
    blocks: int = 0
    """How many blocks the table has, as the snapshot sees it; 0 if the table is not cut."""
    step: int = 1
    preview: tuple[Record, ...] = ()
    """The first records of the export, if any were asked for."""

    @property
    def parts(self) -> int:
        return max(1, -(-self.blocks // self.step))

    def select_part(self, part: int) -> str:
        return query.within(self.select, self.blocks_of(part))

    def blocks_of(self, part: int) -> range | None:
        """Return the blocks of a part; None if the table is not cut. Reading the parts one after the other gives the
        same order as reading the table whole."""
        return range(part * self.step, (part + 1) * self.step) if self.blocks else None

    def joining(self) -> Iterator[str]:
        """Yield the statements that a connection has to execute, in this order, to see the snapshot."""
        yield BEGIN
        yield f"SET TRANSACTION SNAPSHOT '{self.snapshot}'"
        yield holding.PATIENCE
        yield namespaces.TURN
        # The forms of values in CSV and JSON depend on these.
        yield "SET LOCAL timezone = 'UTC'"
        yield "SET LOCAL datestyle = 'ISO, YMD'"
        # Each scan begins at the table's first block, so that the same table gives the same file.
        yield "SET LOCAL synchronize_seqscans = off"
        # Each connection holds what it reads, so that nothing rewrites a table before it is read, or between two parts.
        if self.table:
            yield f"LOCK TABLE {self.table} IN ACCESS SHARE MODE"
        else:
            yield f"SELECT FROM ({self.select_part(0)}) AS planned LIMIT 0"


@contextmanager
def planned(
    engine: Engine, request: ExportRequest, connections: int, preview: int, cancelled: Callable[[], bool]
) -> Iterator[tuple[Plan, Connection]]:
    """Make the plan of an export. The connection that comes with it holds the snapshot open, and must stay open until
    every other connection has joined it."""
    with asked_of(request.resource), pool.borrowed(engine) as connection:
        # No statement behind the transaction's beginning may take its snapshot before the table is locked.
        namespaces.turn_session_to_theirs(connection)
        with connection.transaction():
            with listening(connection, cancelled), held(engine, request, cancelled):
                plan = made(connection, request, preview)
            whole = connections == 1 or request.order or request.query
            yield (plan if whole else in_parts(connection, plan)), connection


def held(engine: Engine, request: ExportRequest, cancelled: Callable[[], bool]) -> AbstractContextManager[None]:
    """Hold what a query reads until it is planned in its snapshot. A table is locked by name."""
    if not request.query:
        return nullcontext()
    url, nothing = engine.url.render_as_string(hide_password=False), f"SELECT FROM ({request.query}\n) AS given"
    return holding.held(url, nothing, lambda session: listening(session, cancelled))


def made(connection: Connection, request: ExportRequest, preview: int) -> Plan:
    """Make a plan that reads the table whole. To find the rows of the preview, it may have to read the whole table. A
    query may take long, so it is not run for a preview."""
    connection.execute(BEGIN)
    connection.execute(holding.PATIENCE)
    table = "" if request.query else sql.Identifier(*request.declared.place).as_string(connection)
    if table:
        connection.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE".encode())
    plan = Plan(
        snapshot=single(connection, "SELECT pg_export_snapshot()"),
        table=table,
        select=query.composed(query.rows(request), connection, request.query),
        count=query.composed(query.count(request), connection, request.query),
        expected_rows=0,
    )
    expected = asked_with(request, lambda: estimate(connection, plan.select_part(0)))
    shown = () if request.query else tuple(first_rows(connection, request, preview))
    return replace(plan, expected_rows=expected, preview=shown)


def asked_with(request: ExportRequest, ask: Callable[[], int]) -> int:
    """Ask PostgreSQL for what a request selects. If a filter has a value that it cannot read, or compare with the
    column, raise `InvalidInput`: another try would find the same."""
    try:
        return ask()
    except (psycopg.errors.DataError, psycopg.errors.UndefinedFunction) as error:
        if not request.filters:
            raise
        conditions = ", ".join(map(str, request.filters))
        raise InvalidInput("where", f"{conditions}: {error.diag.message_primary}") from None


def in_parts(connection: Connection, plan: Plan) -> Plan:
    """Return a plan that reads the table in parts, if that is worth it. The rows of a filter that finds few are best
    read in one go."""
    if plan.expected_rows < ROWS_WORTH_CUTTING:
        return plan
    block = int(single(connection, "SELECT current_setting('block_size')"))
    size = single(connection, "SELECT pg_relation_size(%s::regclass)", [plan.table])
    return replace(plan, blocks=size // block, step=PART // block)


def estimate(connection: Connection, select: str) -> int:
    explained = single(connection, f"EXPLAIN (FORMAT JSON) {select}".encode())
    return int(explained[0]["Plan"]["Plan Rows"])


def single(connection: Connection, statement: Any, values: Any = None) -> Any:
    row = connection.execute(statement, values).fetchone()
    assert row is not None
    return row[0]


def refuse_lasting(resource: str, sqlstate: str | None, reason: str) -> None:
    """Raise `InvalidInput` if a query of somebody else is wrong, so that it would fail again."""
    if resource == QUERY and (sqlstate or "")[:2] in LASTING:
        raise InvalidInput(QUERY, reason)


@contextmanager
def asked_of(resource: str) -> Iterator[None]:
    """Turn an error of PostgreSQL into one line that says why the export failed."""
    try:
        yield
    except psycopg.Error as error:
        reason = error.diag.message_primary or " ".join(str(error).split())
        refuse_lasting(resource, error.sqlstate, reason)
        if isinstance(error, psycopg.errors.UndefinedColumn | psycopg.errors.UndefinedTable):
            reason += ". Was the table changed since it was declared? `bulk resources check` says how the two differ"
        raise Unavailable(f"the {resource} cannot be exported: {reason}") from error
