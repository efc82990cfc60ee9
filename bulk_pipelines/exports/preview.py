"""The first rows of an export, for people to look at."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.exports import query
from bulk_pipelines.exports.request import Compression, ExportRequest, Format
from bulk_pipelines.exports.snapshot import BEGIN, asked_of

ROWS = 10


def preview(engine: Engine, request: ExportRequest, rows: int = ROWS) -> list[dict[str, Any]]:
    """The records as NDJSON would hold them."""
    shown = replace(request, format=Format.NDJSON, compression=Compression.NONE, escape_formulas=False)
    with asked_of(request.resource), pool.transaction(engine) as connection:
        connection.execute(BEGIN)
        connection.execute("SET LOCAL timezone = 'UTC'")
        statement = query.within(query.composed(query.rows(shown).limit(rows), connection), None)
        return [record for (record,) in connection.execute(statement.encode())]
