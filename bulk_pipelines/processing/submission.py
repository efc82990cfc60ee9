"""Submitting jobs of processing."""

from collections.abc import Mapping
from typing import Any

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job, Sender, Submitted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.request import ProcessingRequest, kind_name


def submit(
    connection: Connection, request: ProcessingRequest, sender: Sender, identity: Mapping[str, Any] | None = None
) -> Submitted:
    """Submit a job. `identity` is what equal requests have in common, where that is not the request as it stands."""
    asked = sender.asks(kind_name(request.recipe.type), request.as_params(), identity=identity)
    return jobs.submit(connection, KINDS, asked)


def processing_job(connection: Connection, job_key: str, owner: str | None = None) -> Job:
    """Return the job with this key. Another owner's job is an unknown one."""
    job = jobs.find(connection, job_key, owner)
    if job.kind not in KINDS:
        raise InvalidInput("job", f"{job_key} processes no rows, it is of the kind {job.kind}")
    return job
