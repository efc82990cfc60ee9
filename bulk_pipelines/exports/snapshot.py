"""One state of the database for the whole export, however many connections read it, as pg_dump does it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.exports import query
from bulk_pipelines.exports.request import ExportRequest

PART = 4 << 20
"""Bytes of the table that one part covers: so many that cutting costs little, so few that they can be held ready."""

BEGIN = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"

# A migration that waits to change the table stands between the connections of one export, and would for ever.
PATIENCE = "SET LOCAL lock_timeout = '10s'"


@dataclass(frozen=True)
class Plan:
    """What the connections need to read the same rows. The statements are complete: values quoted, parts cut."""

    snapshot: str
    table: str
    selects: tuple[str, ...]
    """One for each part of the export, in the order of the file."""
    counts: tuple[str, ...]
    """How many rows each part has."""
    expected_rows: int
    """The planner's estimate, for progress."""

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
def planned(engine: Engine, request: ExportRequest, connections: int) -> Iterator[Plan]:
    """The plan, and its snapshot held open until every connection has joined it."""
    with asked_of(request.resource), pool.transaction(engine) as connection:
        connection.execute(BEGIN)
        connection.execute(PATIENCE)
        table = sql.Identifier(request.declared.table).as_string(connection)
        connection.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE".encode())
        parts = cut(connection, request, connections)
        yield Plan(
            snapshot=single(connection, "SELECT pg_export_snapshot()"),
            table=table,
            selects=tuple(query.composed(query.rows(request, blocks), connection) for blocks in parts),
            counts=tuple(query.composed(query.count(request, blocks), connection) for blocks in parts),
            expected_rows=estimate(connection, query.composed(query.rows(request), connection)),
        )


def cut(connection: psycopg.Connection[Any], request: ExportRequest, connections: int) -> list[range | None]:
    """Ranges of the table's blocks: reading them one after the other gives the order of reading it whole.

    Rows in an order that was asked for, and tables of a single part's size, are not cut.
    """
    size = single(connection, "SELECT pg_relation_size(%s::regclass)", [request.declared.table])
    if connections == 1 or request.order or size <= PART:
        return [None]
    block = int(single(connection, "SELECT current_setting('block_size')"))
    step = PART // block
    return [range(first, first + step) for first in range(0, size // block, step)]


def estimate(connection: psycopg.Connection[Any], select: str) -> int:
    explained = single(connection, f"EXPLAIN (FORMAT JSON) {select}".encode())
    return int(explained[0]["Plan"]["Plan Rows"])


def single(connection: psycopg.Connection[Any], statement: Any, values: Any = None) -> Any:
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
