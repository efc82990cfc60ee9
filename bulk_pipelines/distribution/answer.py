"""The answer to a caller who asks about a job: its counts, and a page of the files so far with their absolute paths."""

from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.distribution import completion
from bulk_pipelines.distribution.request import KIND, stored
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.items import cursors, pages
from bulk_pipelines.engine.items.cursors import Position
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput

Answer = dict[str, Any]


def of_job(pool: Engine, job_key: str, *, size: int = pages.MOST, after: str | None = None) -> Answer:
    """Return the counts of a job and one page of its files. `after` is the `next` of the page before. A full page has a
    `next`, although it may be the last one."""
    limit = payload.size("size", size, pages.MOST)
    with transaction(pool) as connection:
        # All is read from one snapshot, so that counts and files agree.
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        job = distribution_job(connection, job_key)
        scope, secret = f"files:{job_key}", cursors.cursor_secret(connection)
        position = cursors.START if after is None else cursors.decode(secret, scope, after)
        values = {
            "job_id": job.job_id,
            "after_time": position.updated_at,
            "after_id": position.item_id,
            "size": limit,
        }
        rows = connection.execute(queries.text("distribution", "files_of_job"), values).fetchall()
        # A job that completed keeps its counts, even when its items are gone.
        kept = job.result if job.status is JobState.COMPLETED else None
        counts = kept or completion.counted(connection, job.job_id)
    last = rows[-1] if len(rows) == limit else None
    return {
        "jobId": job.job_key,
        "status": str(job.status),
        "total": job.total_items,
        "pending": job.pending_items,
        "running": job.running_items,
        "retryWait": job.retry_wait_items,
        "done": job.succeeded_items,
        "failed": job.dlq_items,
        "cancelled": job.cancelled_items,
        "filesGenerated": counts["filesGenerated"],
        "filesReused": counts["filesReused"],
        "errorMessage": job.last_error if job.status is JobState.FAILED else None,
        # A page is sorted in the order of the inputs. Items are settled in batches, within which they have no order.
        "dataContent": [stored(wanted).as_json() | {"s3Path": path} for _, _, wanted, path in sorted(rows)],
        "next": None if last is None else cursors.encode(secret, scope, Position(last[1], last[0])),
    }


def distribution_job(connection: Connection, job_key: str) -> Job:
    job = jobs.find(connection, job_key)
    if job.kind != KIND:
        raise InvalidInput("job", f"{job_key} is no distribution, it is of the kind {job.kind}")
    return job
