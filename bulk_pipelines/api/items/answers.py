"""The bodies of answers about jobs and their items, in the words that the API has for their states."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field
from sqlalchemy import Engine

from bulk_pipelines.api import submissions
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items.pages import ItemRow
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.engine.words import ITEM_WORDS, JOB_WORDS

QueueState = Literal["QUEUED", "RUNNING", "PAUSED", "DONE", "FAILED"]
ItemStatus = Literal["PENDING", "PROCESSING", "DONE", "ERROR", "NOT_FOUND", "SKIPPED"]
NEXT = "The `after` of the next page; null on the last one."


class JobAnswer(BaseModel):
    """A job of any kind, and how far it is."""

    jobId: Annotated[str, Field(examples=["J20260110_000777"])]
    job_type: Annotated[str, Field(description="The kind of job.", examples=["process_lookup"])]
    recipe: Annotated[
        str | None,
        Field(description="The recipe that works its rows, if the job looks up rows.", examples=["products"]),
    ]
    user_id: Annotated[str, Field(description="Whose job it is.", examples=["ada"])]
    origin: Annotated[str, Field(description="Through which door it came: api, cli, ui or sensor.")]
    queue_state: Annotated[QueueState, Field(description="A cancelled job is FAILED, and says so in `status`.")]
    status: Annotated[JobState, Field(description="The state in the program's own words.", examples=["RUNNING"])]
    total_items: Annotated[int, Field(description="The items that are known so far.", examples=[5000])]
    total_is_final: Annotated[bool, Field(description="Whether all items are known.")]
    processed_items: Annotated[int, Field(description="Items that are over, however they ended.", examples=[1200])]
    failed_items: Annotated[int, Field(description="Items that were given up.", examples=[3])]
    items: Annotated[
        dict[ItemStatus, int],
        Field(description="Items by their status.", examples=[{"PENDING": 3790, "PROCESSING": 10, "DONE": 1197}]),
    ]
    attempts: Annotated[int, Field(description="How often a run has begun to work the job.")]
    last_error: str | None
    last_heartbeat: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    ip_address: Annotated[str | None, Field(description="Where the request came from.")]
    file_id: Annotated[str | None, Field(description="The upload that the file came with.")]
    request_id: str | None
    idempotency_key: str | None


class Jobs(BaseModel):
    """A page of jobs, the newest first."""

    jobs: list[JobAnswer]
    next: Annotated[str | None, Field(description=NEXT)]


class ItemAnswer(BaseModel):
    """An item, with a summary of its input."""

    id: Annotated[str, Field(description="A number, as a text.", examples=["4711"])]
    item_key: Annotated[str, Field(description="What names the item in its job.", examples=["000000042"])]
    job_id: Annotated[str, Field(examples=["J20260110_000777"])]
    user_id: Annotated[str, Field(examples=["ada"])]
    job_type: Annotated[str, Field(examples=["process_lookup"])]
    status: ItemStatus
    state: Annotated[
        ItemState, Field(description="The state in the program's own words; an item in RETRY_WAIT is pending.")
    ]
    attempts: int
    due_at: Annotated[datetime | None, Field(description="When the item is tried again, if it waits for that.")]
    locked_by: Annotated[str | None, Field(description="Who works it now.")]
    locked_at: datetime | None
    locked_until: datetime | None
    error_class: str | None
    last_error: str | None
    updated_at: datetime
    inputTitle: str | None
    inputBrand: str | None
    inputSku: str | None
    inputSummary: Annotated[str | None, Field(examples=["title=Lamp brand=Acme"])]


class GridItem(ItemAnswer):
    """An item of a job, with its row of the grid."""

    result: Annotated[
        dict[str, str | None] | None,
        Field(description="Its row of the grid, with long cells shortened; null if the job has no grid."),
    ]


class GridItems(BaseModel):
    """A page of a job's items."""

    items: list[GridItem]
    total: Annotated[int, Field(description="How many of these items the job has now.")]
    next: Annotated[str | None, Field(description=NEXT)]


class PendingItems(BaseModel):
    """A page of items of all jobs."""

    items: list[ItemAnswer]
    next: Annotated[str | None, Field(description=NEXT)]


class Kicked(JobAnswer):
    """A job after a slice of work."""

    worked: Annotated[int, Field(description="How many items the slice has worked.")]
    ended: Annotated[
        str,
        Field(
            description="Why the slice ended: `finished`, `paused`, `waiting` (all wait for a retry), `out of time`, "
            "`stopped`, or `planning` (its rows are still being persisted).",
            examples=["out of time"],
        ),
    ]
    retry_after_ms: Annotated[int | None, Field(description="With `waiting`: when the first retry is due.")]


class Reprocessed(BaseModel):
    """What a request to try items again came to."""

    jobId: str
    items: Annotated[int, Field(description="How many items are tried again, or would be.")]
    dryRun: bool


def job_json(job: Job) -> dict[str, Any]:
    items = counts_of(job)
    recipe = job.params.get("recipe")
    return {
        "jobId": job.job_key,
        "job_type": job.kind,
        "recipe": recipe.get("name") if isinstance(recipe, dict) else None,
        "user_id": job.owner,
        "origin": job.origin,
        "queue_state": JOB_WORDS[job.status],
        "status": job.status,
        "total_items": job.total_items,
        "total_is_final": job.planned_at is not None,
        "processed_items": job.total_items - job.open_items,
        "failed_items": job.dlq_items,
        "items": items,
        "attempts": job.attempts,
        "last_error": job.last_error,
        "last_heartbeat": job.heartbeat_at,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "ip_address": job.address,
        "file_id": job.file_id,
        "request_id": job.request_id,
        "idempotency_key": job.idempotency_key,
    }


def counts_of(job: Job) -> dict[str, int]:
    """Return how many items the job has of each status."""
    found: Counter[str] = Counter()
    for state, word in ITEM_WORDS.items():
        found[word] += count_of(job, state)
    return dict(found)


def count_of(job: Job, state: ItemState) -> int:
    count: int = getattr(job, f"{state.lower()}_items")
    return count


def item_json(row: ItemRow) -> dict[str, Any]:
    state = ItemState(row.status)
    return {
        "id": str(row.item_id),
        "item_key": row.item_key,
        "job_id": row.job_key,
        "user_id": row.owner,
        "job_type": row.kind,
        "status": ITEM_WORDS[state],
        "state": state,
        "attempts": row.attempt_count,
        "due_at": row.due_at if state is ItemState.RETRY_WAIT else None,
        "locked_by": row.lease_owner,
        "locked_at": row.leased_at,
        "locked_until": row.lease_until,
        "error_class": row.error_class,
        "last_error": row.error_message,
        "updated_at": row.updated_at,
        "inputTitle": row.title,
        "inputBrand": row.brand,
        "inputSku": row.sku,
        "inputSummary": row.input_summary,
    }


async def submitted(
    request: Request, pool: Engine, job: Job, *, created: bool, prefer: str | None, headers: Mapping[str, str]
) -> Response:
    """Answer the submission of a job whose rows are looked up."""

    def shown() -> tuple[dict[str, Any], bool]:
        with transaction(pool) as connection:
            found = jobs.find(connection, job.job_key)
        return job_json(found), found.finished

    told = {**headers, "Location": f"/api/jobs/{job.job_key}"}
    return await submissions.answered(request, job, shown, created=created, prefer=prefer, headers=told)
