"""The registry of generated files, with one row for each input. The row is written in the transaction that settles the
item which made the file."""

from collections.abc import Sequence

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.distribution.files.reuse import Artifact
from bulk_pipelines.distribution.request import Input
from bulk_pipelines.engine.items.settling import Settled


def find(connection: Connection, wanted: Sequence[Input]) -> dict[Input, Artifact]:
    values = {
        "index_keys": [each.index_key for each in wanted],
        "effective_dates": [each.effective_date for each in wanted],
        "asof_indicators": [each.asof for each in wanted],
    }
    with connection.cursor(row_factory=class_row(Artifact)) as cursor:
        cursor.execute(queries.text("distribution", "find_artifacts"), values)
        return {artifact.input: artifact for artifact in cursor}


def record(connection: Connection, settled: Sequence[Settled]) -> None:
    """Register the files of items that just succeeded, in the transaction that settles them. The items of a job have
    different inputs, so no row is written twice."""
    generated = [each.item_id for each in settled if not (each.settlement.result or {})["reused"]]
    if generated:
        connection.execute(queries.text("distribution", "record_artifacts"), {"item_ids": generated})
