"""The bodies of answers about exports."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field
from sqlalchemy import Engine

from bulk_pipelines.api import submissions
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.api.submissions import Status
from bulk_pipelines.database.pool import Connection, statements
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.exports import submission
from bulk_pipelines.exports.report import answer
from bulk_pipelines.exports.report.answer import NOT_BEGUN


class Export(BaseModel):
    """An export."""

    job_id: Annotated[str, Field(examples=["J20260110_000777"])]
    idempotency_key: str | None
    resource_type: Annotated[str, Field(examples=["users"])]
    format: Literal["csv", "ndjson", "json", "parquet", "xlsx", "arrow"]
    status: Status
    paused: Annotated[bool, Field(description="A paused export is `processing`.")]
    filters: Annotated[
        dict[str, Any], Field(description="The conditions that an object of this form can express.", examples=[{}])
    ]
    where: Annotated[list[str], Field(description="All conditions.", examples=[["role=admin"]])]
    fields: list[str]
    order: list[str]
    compression: Literal["none", "gzip", "zstd"]
    escape_formulas: bool
    record_count: Annotated[int, Field(description="How many rows are written so far.")]
    bytes: int
    sha256: Annotated[str | None, Field(description="Of the file, once it is whole.")]
    file_path: Annotated[str | None, Field(description="For administrators: where the file lies.")]
    download_url: Annotated[str | None, Field(examples=["/v1/exports/J20260110_000777/download"])]
    failure_reason: str | None
    owner: str
    request_id: str | None
    started_at: datetime | None
    completed_at: datetime | None
    created_at: datetime


class Exports(BaseModel):
    """A page of exports, the newest first."""

    exports: list[Export]
    next: Annotated[str | None, Field(description="The `after` of the next page; null on the last one.")]


def many(connection: Connection, jobs: list[Job], *, admin: bool) -> list[dict[str, Any]]:
    found = answer.progress_of(connection, [job.job_id for job in jobs])
    return [answer.as_json(job, found.get(job.job_id, NOT_BEGUN), admin=admin) for job in jobs]


def found(pool: Engine, job_key: str, caller: Caller) -> dict[str, Any]:
    with statements(pool) as connection:
        return many(
            connection, [submission.export_job(connection, job_key, caller.actor.sees)], admin=caller.actor.admin
        )[0]


async def submitted(
    request: Request,
    pool: Engine,
    job: Job,
    caller: Caller,
    *,
    created: bool,
    prefer: str | None,
    headers: Mapping[str, str],
) -> Response:
    """Answer the submission of an export."""

    def shown() -> tuple[dict[str, Any], bool]:
        body = found(pool, job.job_key, caller)
        return body, body["completed_at"] is not None

    told = {**headers, "Location": f"/v1/exports/{job.job_key}"}
    return await submissions.answered(request, job, shown, created=created, prefer=prefer, headers=told)
