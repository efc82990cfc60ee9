"""What an export shows to people: what was asked for, and the file."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.exports import completion
from bulk_pipelines.exports.request import ExportRequest


@dataclass(frozen=True)
class File:
    rows: int
    bytes: int
    rows_per_second: float
    seconds: float
    location: str
    sha256: str
    preview: list[dict[str, Any]]
    """The first records."""


@dataclass(frozen=True)
class Report:
    request: ExportRequest
    file: File | None
    """None when the export did not complete, and when retention has removed its item."""


def report(pool: Engine, job: Job) -> Report:
    request = ExportRequest.from_params(job.params)
    with transaction(pool) as connection:
        result, _ = completion.file_of(connection, job)
    if job.result is None or result is None:
        return Report(request, None)
    file = File(
        rows=int(result["rows"]),
        bytes=int(result["bytes"]),
        rows_per_second=float(result["rows_per_second"]),
        seconds=float(result["duration"]),
        location=result["location"],
        sha256=result["sha256"],
        preview=result["preview"],
    )
    return Report(request, file)
