"""One state of the database for the whole export, however many connections read it, as pg_dump does it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.exports.read import query
from bulk_pipelines.exports.read.listening import listening
from bulk_pipelines.exports.read.preview import Record, first_rows
from bulk_pipelines.exports.request import ExportRequest

PART = 4 << 20
"""Bytes of the table that one part covers: so many that cutting costs little, so few that they can be held ready."""
ROWS_WORTH_CUTTING = 100_000

BEGIN = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"

# A migration that waits to change the table stands between the connections of one export, and would for ever.
PATIENCE = "SET LOCAL lock_timeout = '10s'"


@dataclass(frozen=True)
class Plan:
    """What the connections need to read the same rows."""

    snapshot: str
    table: str
    select: str
    count: str
    """Both composed: their values quoted, their blocks still to be told."""
    expected_rows: int
    """The planner's estimate."""
    blocks: int = 0
    """Of the table, as far as the snapshot sees it; none if it is not cut."""
    step: int = 1
    preview: tuple[Record, ...] = ()
    """The first records, if any were asked for."""

    @property
    def parts(self) -> int:
        return max(1, -(-self.blocks // self.step))

    def select_part(self, part: int) -> str:
        return query.within(self.select, self.blocks_of(part))

    def blocks_of(self, part: int) -> range | None:
        """Reading the parts one after the other gives the order of reading the table whole."""
        return range(part * self.step, (part + 1) * self.step) if self.blocks else None

    def joining(self) -> Iterator[str]:
        """What a connection has to say, in this order, to see the snapshot."""
        yield BEGIN
        yield f"SET TRANSACTION SNAPSHOT '{self.snapshot}'"
        yield PATIENCE
        # The forms of values in CSV and JSON depend on these.
        yield "SET LOCAL timezone = 'UTC'"
        yield "SET LOCAL datestyle = 'ISO, YMD'"
        # The same table gives the same file.
        yield "SET LOCAL synchronize_seqscans = off"
        # Held by each connection, so that nothing rewrites the table between two parts.
        yield f"LOCK TABLE {self.table} IN ACCESS SHARE MODE"


@contextmanager
def planned(
    engine: Engine, request: ExportRequest, connections: int, preview: int, cancelled: Callable[[], bool]
) -> Iterator[tuple[Plan, Connection]]:
    """The plan, and its snapshot held open by that connection until every other one has joined it."""
    with asked_of(request.resource), pool.transaction(engine) as connection:
        with listening(connection, cancelled):
            plan = made(connection, request, preview)
        yield (cut(connection, plan) if connections > 1 and not request.order else plan), connection


def made(connection: Connection, request: ExportRequest, preview: int) -> Plan:
    """The plan of reading the table whole. Its preview may have to read it whole, too."""
    connection.execute(BEGIN)
    connection.execute(PATIENCE)
    table = sql.Identifier(request.declared.table).as_string(connection)
    connection.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE".encode())
    plan = Plan(
        snapshot=single(connection, "SELECT pg_export_snapshot()"),
        table=table,
        select=query.composed(query.rows(request), connection),
        count=query.composed(query.count(request), connection),
        expected_rows=0,
        preview=tuple(first_rows(connection, request, preview)),
    )
    return replace(plan, expected_rows=estimate(connection, plan.select_part(0)))


def cut(connection: Connection, plan: Plan) -> Plan:
    """The plan in parts, if it is worth it: a filter that finds few rows finds them best in one go."""
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


@contextmanager
def asked_of(resource: str) -> Iterator[None]:
    """What PostgreSQL answers to an export, in one line."""
    try:
        yield
    except psycopg.Error as error:
        reason = error.diag.message_primary or " ".join(str(error).split())
        raise Unavailable(f"the {resource} cannot be exported: {reason}") from error
