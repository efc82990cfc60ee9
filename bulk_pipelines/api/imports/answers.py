"""The bodies of answers about imports."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field
from sqlalchemy import Engine

from bulk_pipelines.api import submissions
from bulk_pipelines.api.submissions import Status
from bulk_pipelines.database.pool import Connection, statements
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.report import answer
from bulk_pipelines.imports.report.answer import Figures


class RecordError(BaseModel):
    """A record that was rejected."""

    row: Annotated[int, Field(description="The line of the file on which the record begins.", examples=[4711])]
    line: Annotated[int, Field(description="The same as `row`.")]
    field: str | None
    value: str | None
    reason: Annotated[str, Field(examples=["invalid_email_format"])]
    reasons: Annotated[list[dict[str, Any]], Field(description="All that is wrong with the record.")]


class Import(BaseModel):
    """An import."""

    job_id: Annotated[str, Field(examples=["J20260110_000777"])]
    idempotency_key: str | None
    resource_type: Annotated[str, Field(examples=["users"])]
    mode: Literal["insert", "upsert", "validate"]
    status: Status
    paused: Annotated[bool, Field(description="A paused import is `processing`.")]
    total_records: Annotated[int | None, Field(description="null until the first records are read.")]
    total_is_estimate: Annotated[bool, Field(description="Until the file is read, the total is an estimate.")]
    processed_records: int
    successful_records: int
    error_records: int
    inserted_records: Annotated[int, Field(description="Records whose rows are new.")]
    updated_records: Annotated[int, Field(description="Of an upsert: records that changed the row that was there.")]
    unchanged_records: Annotated[int, Field(description="Of an upsert: records whose row said the same already.")]
    superseded_records: Annotated[
        int, Field(description="Of an upsert: records that a later one of the file replaced.")
    ]
    unprocessed_records: Annotated[
        int, Field(description="Records that were never reached, or given up before anything was decided.")
    ]
    failure_reason: str | None
    owner: str
    file_id: Annotated[str | None, Field(description="The upload that the file came with.")]
    request_id: str | None
    replay_of: str | None
    started_at: datetime | None
    completed_at: datetime | None
    created_at: datetime


class ImportWithErrors(Import):
    """An import, with its first rejects."""

    errors: Annotated[list[RecordError], Field(description="The first rejects; /errors has all of them.")]


class Imports(BaseModel):
    """A page of imports, the newest first."""

    imports: list[Import]
    next: Annotated[str | None, Field(description="The `after` of the next page; null on the last one.")]


def with_errors(connection: Connection, job: Job) -> dict[str, Any]:
    """Return the import with its first rejects."""
    found = answer.figures(connection, [job.job_id]).get(job.job_id, Figures(Counts()))
    return answer.as_json(job, found) | {"errors": answer.errors(connection, job.job_id)}


def found(pool: Engine, job_key: str, owner: str | None) -> dict[str, Any]:
    with statements(pool) as connection:
        return with_errors(connection, submission.import_job(connection, job_key, owner))


def many(connection: Connection, jobs: list[Job]) -> list[dict[str, Any]]:
    figures = answer.figures(connection, [job.job_id for job in jobs])
    return [answer.as_json(job, figures.get(job.job_id, Figures(Counts()))) for job in jobs]


async def submitted(
    request: Request,
    pool: Engine,
    job: Job,
    *,
    created: bool,
    prefer: str | None,
    headers: Mapping[str, str],
) -> Response:
    """Answer the submission of an import."""

    def shown() -> tuple[dict[str, Any], bool]:
        body = found(pool, job.job_key, None)
        return body, body["completed_at"] is not None

    told = {**headers, "Location": f"/v1/imports/{job.job_key}"}
    return await submissions.answered(request, job, shown, created=created, prefer=prefer, headers=told)
