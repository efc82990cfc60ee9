"""What other programs are told of an export: the fields and words that they know exports by."""

from collections.abc import Iterable
from typing import Any

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.words import WORDS
from bulk_pipelines.exports import filters
from bulk_pipelines.exports.kind import known_kinds
from bulk_pipelines.exports.progress import Progress
from bulk_pipelines.exports.request import ExportRequest, kind_name

NOT_BEGUN = Progress()


def kinds_of(resource: str | None) -> list[str]:
    """Return the kinds of job that exports of a resource are; of all resources, if none is named."""
    return list(known_kinds()) if resource is None else [each for each in known_kinds() if each == kind_name(resource)]


def progress_of(connection: Connection, job_ids: Iterable[int]) -> dict[int, Progress]:
    """Return how far these exports are, by their ids. An export that is over is not among them."""
    rows = connection.execute(queries.text("exports", "progress_of_jobs"), {"job_ids": list(job_ids)})
    return {row[0]: Progress(*row[1:]) for row in rows}


def as_json(job: Job, found: Progress, *, admin: bool) -> dict[str, Any]:
    """Return the export as other programs are shown it. Where its file lies is for administrators only."""
    request = ExportRequest.from_params(job.params)
    file = job.result if job.status is JobState.COMPLETED else None
    rows, size = (file["rows"], file["bytes"]) if file else (found.rows, found.bytes)
    return {
        "job_id": job.job_key,
        "idempotency_key": job.idempotency_key,
        "resource_type": request.resource,
        "format": request.format.value,
        "status": WORDS[job.status],
        "paused": job.status is JobState.PAUSED,
        "filters": filters.as_object(request.filters),
        "where": [str(each) for each in request.filters],
        "fields": [column.name for column in request.columns],
        "order": [str(each) for each in request.order],
        "compression": request.compression.value,
        "escape_formulas": request.escape_formulas,
        "record_count": rows,
        "bytes": size,
        "sha256": file["sha256"] if file else None,
        "file_path": file["location"] if file and admin else None,
        "download_url": f"/v1/exports/{job.job_key}/download" if file else None,
        "failure_reason": job.last_error,
        "owner": job.owner,
        "request_id": job.request_id,
        "started_at": job.started_at,
        "completed_at": job.finished_at,
        "created_at": job.created_at,
    }
