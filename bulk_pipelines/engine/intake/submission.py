"""Jobs whose items are known when they are submitted: both are persisted in one transaction."""

from collections.abc import Iterable, Mapping
from typing import Any

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.persist import Encoded
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.submission import Request, Submitted


def submit(connection: Connection, kinds: Mapping[str, Any], request: Request, items: Iterable[Encoded]) -> Submitted:
    """Return the job of a request, with its items; if the request was made before, the job that is there already."""
    submitted = submission.submit(connection, kinds, request)
    if not submitted.created:
        return submitted
    persist.copy_all(connection, submitted.job.job_id, items)
    return Submitted(jobs.find(connection, submitted.job.job_key), created=True)
