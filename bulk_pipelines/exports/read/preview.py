"""The first rows of an export, for people to look at. They are read from the export's own snapshot."""

from dataclasses import replace
from typing import Any

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.exports.read import query
from bulk_pipelines.exports.request import Compression, ExportRequest, Format

Record = dict[str, Any]


def first_rows(connection: Connection, request: ExportRequest, rows: int) -> list[Record]:
    """Return at most `rows` records, as NDJSON would hold them. The connection must be in the export's transaction, or
    in one like it: the function sets the transaction's time zone."""
    if not rows:
        return []
    connection.execute("SET LOCAL timezone = 'UTC'")
    statement = query.within(query.composed(query.rows(plain(request)).limit(rows), connection, request.query), None)
    return [record for (record,) in connection.execute(statement.encode())]


def estimate(connection: Connection, request: ExportRequest) -> int:
    """Return how many rows PostgreSQL expects the export to have. Nothing is read for that."""
    statement = query.within(query.composed(query.rows(plain(request)), connection, request.query), None)
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode()).fetchone()
    assert row is not None
    return int(row[0][0]["Plan"]["Plan Rows"])


def plain(request: ExportRequest) -> ExportRequest:
    return replace(request, format=Format.NDJSON, compression=Compression.NONE, escape_formulas=False)
