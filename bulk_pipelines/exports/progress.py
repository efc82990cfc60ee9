"""How far an export has come, as a row of the database says. Once the file is written whole, the row also describes it,
because it may have been published."""

import json
from dataclasses import dataclass
from typing import Any

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.errors import LeaseLost
from bulk_pipelines.engine.items.leases import Lease


@dataclass(frozen=True)
class Progress:
    rows: int = 0
    bytes: int = 0
    expected_rows: int = 0
    written: dict[str, Any] | None = None
    """The description of the file, once it is whole; None before."""


def save(connection: Connection, lease: Lease, progress: Progress) -> None:
    """Write the progress of the export that holds this lease. Raise `LeaseLost` if another worker has the item by now,
    which writes its own progress."""
    values = vars(progress) | {
        "item_id": lease.item_id,
        "lease_term": lease.lease_term,
        "written": None if progress.written is None else json.dumps(progress.written),
    }
    if connection.execute(queries.text("exports", "save_progress"), values).fetchone() is None:
        raise LeaseLost(lease.item_id, lease.lease_term)


def read(connection: Connection, job_id: int) -> Progress | None:
    """Return how far an export has come; None before it begins, and once it has completed or been wound up."""
    with connection.cursor(row_factory=class_row(Progress)) as cursor:
        return cursor.execute(queries.text("exports", "progress"), {"job_id": job_id}).fetchone()


def seconds(connection: Connection, job_id: int) -> float:
    """Return for how long an export has been worked."""
    row = connection.execute(queries.text("exports", "seconds"), {"job_id": job_id}).fetchone()
    return float(row[0]) if row else 0.0


def forget(connection: Connection, job_id: int) -> None:
    connection.execute(queries.text("exports", "forget_progress"), {"job_id": job_id})
