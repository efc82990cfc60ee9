"""One item with all that is known of it."""

from typing import Any

from psycopg.rows import dict_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import NotFound


def of_job(connection: Connection, job: Job, item_id: int) -> dict[str, Any]:
    """Return an item of the job, by the names that people are shown."""
    values = {"job_id": job.job_id, "item_id": item_id}
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(queries.text("pages", "item_of_job"), values).fetchone()
    if found is None:
        raise NotFound(f"job {job.job_key} has no item {item_id}: retention may have removed it")
    return found
