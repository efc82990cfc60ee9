"""Submitting an export. The request is checked, then the job and its one item are written in one transaction, before
the caller gets an answer."""

from bulk_pipelines import resources
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import persist, submission
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import queries
from bulk_pipelines.exports.kind import known_kinds
from bulk_pipelines.exports.request import QUERY, ExportRequest
from bulk_pipelines.resources import adoption


def source(connection: Connection, resource: str | None, table: str | None, query: str | None) -> dict[str, object]:
    """Return the parameters that say what is exported: a resource, any table, or the rows of a SELECT."""
    if query is not None:
        if resource is not None or table is not None:
            raise InvalidInput("query", "name either a resource, a table or a query")
        asked = queries.text_of(query)
        return {"resource": QUERY, "query": asked, "declaration": queries.described(connection, asked)}
    declared = adoption.chosen(connection, resource, table)
    return {"resource": declared.name} | ({} if declared.built_in else {"declaration": declared})


def submit(connection: Connection, request: ExportRequest, sender: Sender) -> Submitted:
    """Submit an export. The same key with the same request names the job that is there already."""
    if not request.query:
        adoption.refuse_unmade(connection, request.declared)
    asked = sender.asks(request.kind_name, request.as_params())
    return submission.submit(connection, known_kinds(), asked, persist.checked([("file", {})]))


def export_job(connection: Connection, job_key: str, owner: str | None = None) -> Job:
    """Return the export with this key. Another owner's export is an unknown job."""
    job = jobs.find(connection, job_key, owner)
    if job.kind not in known_kinds():
        resources.refuse_kind(job_key, job.kind, "export")
    return job
