"""Exports: they are streamed, or submitted as jobs, whose state is shown and whose files are fetched."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.models import Example

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.exports import answers, downloads, requests
from bulk_pipelines.api.exports.answers import Export, Exports
from bulk_pipelines.api.exports.requests import (
    MEDIA_TYPES,
    Accept,
    Escape,
    Fields,
    Filters,
    FormatName,
    Order,
    Packing,
    Resource,
    Table,
    Where,
)
from bulk_pipelines.api.idempotency import Key, checked
from bulk_pipelines.api.imports import tables
from bulk_pipelines.api.moments import Moment
from bulk_pipelines.api.owners.admission import Admission
from bulk_pipelines.api.owners.callers import Caller, ForOwner, Reader, Writer, acting_for, looking_at
from bulk_pipelines.api.pages import Size, after_id, cursor_of
from bulk_pipelines.api.preferences import Prefer
from bulk_pipelines.api.reading import read
from bulk_pipelines.api.streams import Gone, Stream
from bulk_pipelines.api.submissions import Status, shown_at_once
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import words
from bulk_pipelines.engine.jobs import jobs, listing
from bulk_pipelines.engine.jobs.listing import Wanted
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.exports import submission
from bulk_pipelines.exports.report import answer
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.exports.streaming import stream

router = APIRouter(prefix="/v1/exports", tags=["exports"])

JobKey = Annotated[str, Path(description="The job's key.", max_length=100, examples=["J20260110_000777"])]
EXAMPLES: dict[str, Example] = {
    "admins": {"value": {"resource": "users", "format": "parquet", "filters": {"role": "admin"}}}
}
BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
FILES = {kind: BINARY for kind in (*MEDIA_TYPES.values(), *requests.PACKED.values()) if kind != "application/json"}
ROWS_OR_LIST: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "With `resource`, the rows, from the first one on; else a page of exports.",
        "content": {
            **FILES,
            "application/json": {
                "schema": {"anyOf": [{"$ref": "#/components/schemas/Exports"}, {"type": "array", "items": {}}]}
            },
        },
    }
}
DOWNLOADED: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {**FILES, "application/json": {"schema": {}}}},
    206: {"description": "The part of the file that `Range` names.", "content": FILES},
    304: {"description": "The file is the one that `If-None-Match` names."},
    307: {"description": "The file can be fetched at `Location`, by anybody, for an hour."},
}


@router.get("", summary="Stream an export, or list exports", response_model=Exports, responses=ROWS_OR_LIST)
def stream_or_list(
    request: Request,
    door: TheDoor,
    caller: Reader,
    resource: Resource = None,
    table: Table = None,
    format: FormatName = None,  # noqa: A002
    fields: Fields = None,
    where: Where = None,
    filters: Filters = None,
    order: Order = None,
    compression: Packing = None,
    escape_formulas: Escape = False,
    accept: Accept = None,
    status: Annotated[list[Status] | None, Query(description="List: only in one of these states.")] = None,
    resource_type: Annotated[str | None, Query(description="List: only of this resource.", max_length=200)] = None,
    since: Annotated[Moment | None, Query(alias="from", description="List: submitted not before.")] = None,
    until: Annotated[Moment | None, Query(alias="to", description="List: submitted before.")] = None,
    owner: ForOwner = None,
    size: Size = 100,
    after: Annotated[str | None, Query(description="List: `next` of the page before.", max_length=200)] = None,
) -> Any:
    """Streams the rows of a `resource`, as they are at one moment, in the format that is named or that `Accept` likes
    best. An error in the middle breaks the answer off, so that no client takes it for whole; a client that goes away
    ends the query. Without a `resource`, this lists the exports that are jobs, the newest first."""
    if resource is None and table is None:
        wanted = Wanted(
            looking_at(caller, owner),
            answer.kinds_of(resource_type),
            words.states_of(status),
            since=since,
            until=until,
        )
        return listed(door, caller, wanted, size, after)
    asked = requests.streamed(
        accept,
        format,
        filters,
        {
            **requests.named(resource, table, tables.declare_of(door, admin=caller.actor.admin)),
            "fields": fields,
            "where": where,
            "order": order,
            "compression": compression,
            "escape_formulas": escape_formulas,
        },
    )
    return rows(request, door, caller, asked)


def listed(door: Door, caller: Caller, wanted: Wanted, size: int, after: str | None) -> Exports:
    with transaction(door.pool) as connection:
        found = listing.page(connection, wanted, size, after_id(after))
        shown = answers.many(connection, found, admin=caller.actor.admin)
    more = cursor_of(found[-1].job_id) if len(found) == size else None
    return Exports(exports=[Export(**each) for each in shown], next=more)


def rows(request: Request, door: Door, caller: Caller, asked: ExportRequest) -> Stream:
    def made(gone: Gone) -> Iterator[bytes]:
        return stream(door.pool, asked, cancelled=gone)

    headers = {
        "Content-Disposition": f'attachment; filename="{asked.resource}{asked.suffix}"',
        "Cache-Control": "no-store",
        "Vary": "Accept",
    }
    return Stream(request.app.state.streams, caller.actor.name, made, requests.media_type(asked), headers)


@router.post(
    "",
    summary="Submit an export",
    status_code=202,
    response_model=Export,
    responses={200: {"model": Export, "description": "The same request was made before, or `Prefer: wait` was met."}},
)
async def submit_export(
    asked: Annotated[requests.Export, Body(openapi_examples=EXAMPLES)],
    request: Request,
    door: TheDoor,
    caller: Writer,
    idempotency_key: Key = None,
    prefer: Prefer = None,
    owner: ForOwner = None,
) -> Response:
    """Submits an export as a job, whose file is published whole. An `Idempotency-Key` makes it safe to send the request
    again."""
    sender = caller.sender(acting_for(caller, owner), checked(idempotency_key), asked.priority)
    submitted, admission = await run_in_threadpool(submit, door, caller, sender, asked)
    return await answers.submitted(
        request, door.pool, submitted.job, caller, created=submitted.created, prefer=prefer, headers=admission.headers
    )


def submit(door: Door, caller: Caller, sender: Sender, asked: requests.Export) -> tuple[Submitted, Admission]:
    wanted = asked.request(door, admin=caller.actor.admin)
    admission = Admission(door, sender.owner)
    with transaction(door.pool) as connection:
        admission.admit_new(connection, sender)
        return submission.submit(connection, wanted, sender), admission


@router.get("/{job_id}", summary="One export", response_model=Export)
async def show_export(job_id: JobKey, request: Request, door: TheDoor, caller: Reader) -> Response:
    """Shows how far an export is, and where its file can be fetched."""
    return await read(request, lambda: shown_at_once(Export(**answers.found(door.pool, job_id, caller))))


@router.get("/{job_id}/download", summary="The file of an export", response_class=Response, responses=DOWNLOADED)
def download_export(job_id: JobKey, request: Request, door: TheDoor, caller: Reader) -> Response:
    """Downloads the file, or a part of it (`Range`, `If-Range`, `If-None-Match`). A file on S3 is fetched from there:
    the answer is a redirect to an address that is good for an hour."""
    return downloads.download(request, door, job_id, caller)


@router.head(
    "/{job_id}/download",
    summary="What is known of the file of an export",
    response_class=Response,
    responses={code: DOWNLOADED[code] for code in (200, 304)},
)
def look_at_download(job_id: JobKey, request: Request, door: TheDoor, caller: Reader) -> Response:
    """Tells the size, the tag and the digest of the file."""
    return downloads.download(request, door, job_id, caller)


@router.post("/{job_id}/cancel", summary="Cancel an export")
def cancel_export(job_id: JobKey, door: TheDoor, caller: Writer) -> Export:
    """Cancels an export. Nothing is left of its file."""
    with transaction(door.pool) as connection:
        job = submission.export_job(connection, job_id, caller.actor.sees)
    jobs.cancel(door.pool, job.job_key, caller.actor)
    return Export(**answers.found(door.pool, job_id, caller))
