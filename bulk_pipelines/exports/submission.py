"""Submitting an export. The request is checked, then the job and its one item are written in one transaction, before
the caller gets an answer."""

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Request, Submitted
from bulk_pipelines.exports.asked import Asked
from bulk_pipelines.exports.kind import KINDS
from bulk_pipelines.exports.names import name_of


def submit(
    connection: Connection,
    asked: Asked,
    *,
    owner: str,
    origin: str,
    idempotency_key: str | None = None,
    request_id: str | None = None,
    priority: int = 0,
) -> Submitted:
    """Write the job of an export. If the same request was submitted before under this idempotency key, return the job
    that is there already."""
    kind = name_of(asked.request.resource)
    wanted = Request(kind, owner, asked.as_params(), origin, idempotency_key, request_id, priority=priority)
    submitted = jobs.submit(connection, KINDS, wanted)
    if not submitted.created:
        return submitted
    persist.add_all(connection, submitted.job.job_id, [("file", {})])
    return Submitted(jobs.find(connection, submitted.job.job_key), created=True)
