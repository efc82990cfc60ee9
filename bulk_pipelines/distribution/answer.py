"""The answer to a caller who asks about a job: its counts, and a page of the files so far with their absolute paths."""

from typing import Any

from psycopg.rows import dict_row
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, statements
from bulk_pipelines.distribution.request import KIND, stored
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.items import cursors, pages
from bulk_pipelines.engine.items.cursors import Position
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput

Answer = dict[str, Any]


def of_job(
    pool: Engine, job_key: str, *, owner: str | None = None, size: int = pages.MOST, after: str | None = None
) -> Answer:
    """Return the counts of a job and one page of its files. `after` is the `next` of the page before. A full page has a
    `next`, although it may be the last one."""
    limit = payload.size("size", size, pages.MOST)
    scope = f"files:{job_key}"
    with statements(pool) as connection:
        position = cursors.START if after is None else cursors.decode(cursors.cursor_secret(connection), scope, after)
        values = {
            "job_key": payload.text("job", job_key),
            "owner": owner,
            "after_time": position.updated_at,
            "after_id": position.item_id,
            "size": limit,
        }
        with connection.cursor(row_factory=dict_row) as cursor:
            row = cursor.execute(queries.text("distribution", "job_and_files"), values).fetchone()
        if row is None:
            raise UnknownJob(job_key)
        refuse_others(job_key, row["kind"])
        files, counts = row["page"], row["counts"]
        follow = None
        if len(files) == limit:
            secret = cursors.cursor_secret(connection)
            follow = cursors.encode(secret, scope, Position(row["last_time"], row["last_id"]))
    return {
        "jobId": row["job_key"],
        "status": row["status"],
        "total": row["total_items"],
        "pending": row["pending_items"],
        "running": row["running_items"],
        "retryWait": row["retry_wait_items"],
        "done": row["succeeded_items"],
        "failed": row["dlq_items"],
        "cancelled": row["cancelled_items"],
        "filesGenerated": counts["filesGenerated"],
        "filesReused": counts["filesReused"],
        "errorMessage": row["last_error"] if row["status"] == JobState.FAILED else None,
        "dataContent": [stored(wanted).as_json() | {"s3Path": path} for wanted, path in files],
        "next": follow,
    }


def distribution_job(connection: Connection, job_key: str) -> Job:
    job = jobs.find(connection, job_key)
    refuse_others(job.job_key, job.kind)
    return job


def refuse_others(job_key: str, kind: str) -> None:
    if kind != KIND:
        raise InvalidInput("job", f"{job_key} is no distribution, it is of the kind {kind}")
