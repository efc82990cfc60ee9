"""The end of a distribution: its counters say how it ended, and its result says how many files there are."""

from dataclasses import replace

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs import end
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Ending


def finish(connection: Connection, job: Job) -> Ending:
    """End the job, and keep the counts of its files in its result, because retention removes the items."""
    return replace(end.verdict(job), result=counted(connection, job.job_id))


def counted(connection: Connection, job_id: int) -> dict[str, int]:
    row = connection.execute(queries.text("distribution", "file_counts"), {"job_id": job_id}).fetchone()
    assert row is not None, "counts always make a row"
    return {"filesGenerated": row[0], "filesReused": row[1]}
