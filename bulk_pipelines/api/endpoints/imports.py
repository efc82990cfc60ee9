"""Imports: they are submitted with their files, and shown; their rejects are fetched; they are run again or undone."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.files import described
from bulk_pipelines.api.files.receiving import in_a_thread
from bulk_pipelines.api.files.sent import SentBody, SentForm, media_type, sent_of
from bulk_pipelines.api.idempotency import Key, checked
from bulk_pipelines.api.imports import answers, previewing, requests, resumption, submitting, tables
from bulk_pipelines.api.imports.answers import Import, Imports, ImportWithErrors, RecordError
from bulk_pipelines.api.imports.previewing import PreviewAnswer
from bulk_pipelines.api.imports.requests import Address
from bulk_pipelines.api.imports.submitting import Mended
from bulk_pipelines.api.moments import Moment
from bulk_pipelines.api.owners.callers import Caller, ForOwner, Reader, Writer, acting_for, looking_at
from bulk_pipelines.api.pages import Size, after_id, cursor_of
from bulk_pipelines.api.preferences import Prefer
from bulk_pipelines.api.reading import read
from bulk_pipelines.api.submissions import Status, shown_at_once
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import words
from bulk_pipelines.engine.jobs import jobs, listing
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.listing import Wanted
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.afterwards import outcomes, replays, undo
from bulk_pipelines.imports.afterwards.outcomes import Outcome
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.load.rejects import Download
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.report import answer
from bulk_pipelines.imports.request import Options
from bulk_pipelines.storage.access import access_of

router = APIRouter(prefix="/v1/imports", tags=["imports"])

JobKey = Annotated[str, Path(description="The job's key.", max_length=100, examples=["J20260110_000777"])]
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson", "json": "application/json"}

CUT = "true: this is the beginning of a larger file, and its last line may be incomplete."

BODIES = described.sent(requests.FIELDS, {"resource": "users"}, Address, {"url": "https://example.org/users.csv"})


@router.post(
    "",
    summary="Submit an import",
    status_code=202,
    response_model=ImportWithErrors,
    responses={
        200: {"model": ImportWithErrors, "description": "The same request was made before, or `Prefer: wait` was met."},
        201: {"description": "A resumable upload has begun: its address is in Location."},
    },
    openapi_extra=BODIES,
)
async def submit_import(
    request: Request,
    door: TheDoor,
    caller: Writer,
    idempotency_key: Key = None,
    prefer: Prefer = None,
    owner: ForOwner = None,
) -> Response:
    """Sends a file, as a form (`file`), or as the body with its options in the address; or names one as JSON. The file
    is landed while it arrives. With `Upload-Complete` it is a resumable upload. `Content-Digest` and `Repr-Digest` are
    checked. An `Idempotency-Key` makes it safe to send the request again."""
    sender = caller.sender(acting_for(caller, owner), checked(idempotency_key))
    if resumption.begins(request):
        wanted = await run_in_threadpool(resumption.options_of, request, door, admin=caller.actor.admin)
        return await resumption.begin(request, door, sender, prefer, wanted)
    if media_type(request) == "application/json":
        asked = await run_in_threadpool(requests.address_of, await request.body())
        sender = caller.sender(sender.owner, sender.idempotency_key, asked.priority)
        submitted, admission = await run_in_threadpool(submitting.from_address, door, caller, sender, asked)
    else:
        arrival = await run_in_threadpool(file_sent, request, door, caller, requests.FIELDS)
        work = partial(submitting.sent, door, sender, arrival, resumption.content_length(request))
        submitted, admission = await in_a_thread(request, work)
    return await answers.submitted(
        request, door.pool, submitted.job, created=submitted.created, prefer=prefer, headers=admission.headers
    )


def file_sent(
    request: Request, door: Door, caller: Caller, fields: Iterable[str]
) -> SentForm[Options] | SentBody[Options]:
    """Return the file that the request sends, with the options of an import."""
    admin = caller.actor.admin
    read = partial(requests.options_of, declare=tables.declare_of(door, admin=admin), admin=admin)
    return sent_of(request, fields, read)


@router.post(
    "/preview",
    summary="Look at a file before it is imported",
    response_model=PreviewAnswer,
    openapi_extra=described.sent({**requests.FIELDS, "cut": CUT}, {"resource": "users"}),
)
async def preview_import(request: Request, door: TheDoor, caller: Writer) -> Response:
    """Shows how a file would be read: which field goes to which column, the first records, what would be rejected, and
    which options are needed. The file is sent as for an import, 32 MiB at most; of a larger one, its beginning. Nothing
    is submitted, and nothing of it is kept."""
    arrival = await run_in_threadpool(file_sent, request, door, caller, {**requests.FIELDS, "cut": CUT})
    found = await in_a_thread(request, partial(previewing.looked, door, arrival))
    return shown_at_once(PreviewAnswer.of(found))


@router.get("", summary="List imports")
def list_imports(
    door: TheDoor,
    caller: Reader,
    status: Annotated[list[Status] | None, Query(description="Only in one of these states.")] = None,
    resource_type: Annotated[str | None, Query(description="Only imports into this resource.", max_length=200)] = None,
    since: Annotated[Moment | None, Query(alias="from", description="Submitted not before this time.")] = None,
    until: Annotated[Moment | None, Query(alias="to", description="Submitted before this time.")] = None,
    owner: ForOwner = None,
    size: Size = 100,
    after: Annotated[str | None, Query(description="`next` of the page before.", max_length=200)] = None,
) -> Imports:
    """Lists imports, the newest first. Every page costs the same."""
    wanted = Wanted(
        looking_at(caller, owner),
        answer.kinds_of(resource_type),
        words.states_of(status),
        since=since,
        until=until,
    )
    with transaction(door.pool) as connection:
        found = listing.page(connection, wanted, size, after_id(after))
        shown = answers.many(connection, found)
    more = cursor_of(found[-1].job_id) if len(found) == size else None
    return Imports(imports=[Import(**each) for each in shown], next=more)


@router.get("/{job_id}", summary="One import", response_model=ImportWithErrors)
async def show_import(job_id: JobKey, request: Request, door: TheDoor, caller: Reader) -> Response:
    """Shows how far an import is, and its first rejects."""
    return await read(
        request, lambda: shown_at_once(ImportWithErrors(**answers.found(door.pool, job_id, caller.actor.sees)))
    )


class Errors(BaseModel):
    """A page of rejects, in the order of the file."""

    errors: list[RecordError]
    next: Annotated[str | None, Field(description="The `after` of the next page; null on the last one.")]


@router.get(
    "/{job_id}/errors",
    summary="The rejects of an import",
    response_model=Errors,
    responses={200: {"content": {"text/csv": {}, "application/x-ndjson": {}}}},
)
def show_errors(
    job_id: JobKey,
    door: TheDoor,
    caller: Reader,
    format: Annotated[  # noqa: A002
        Literal["json", "csv", "ndjson"], Query(description="json: a page; csv, ndjson: all of them, streamed.")
    ] = "json",
    size: Size = 100,
    after: Annotated[str | None, Query(description="`next` of the page before.", max_length=200)] = None,
) -> Any:
    """Shows why records were rejected: page by page, or all of them as a file, in the order of the input."""
    job = import_of(door, job_id, caller.actor.sees)
    if format != "json":
        pieces = rejects.download(lambda: transaction(door.pool), job.job_id, Download(format))
        return streamed(pieces, format, f"{job.job_key}-errors")
    with transaction(door.pool) as connection:
        found = answer.errors(connection, job.job_id, after_id(after) or 0, size)
        follow = bool(found) and rejects.follow(connection, job.job_id, found[-1]["line"])
    more = cursor_of(found[-1]["line"]) if follow else None
    return Errors(errors=[RecordError(**each) for each in found], next=more)


@router.get(
    "/{job_id}/records/{outcome}",
    summary="Records by what became of them",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/csv": {}, "application/x-ndjson": {}, "application/json": {}}}},
)
def download_records(
    job_id: JobKey,
    outcome: Outcome,
    door: TheDoor,
    caller: Reader,
    file: Annotated[
        int | None, Query(description="The number of the file, if the import has several with different columns.", ge=1)
    ] = None,
) -> StreamingResponse:
    """Downloads the records that were successful, failed, or are unprocessed, as they stood in the file and in its
    order, with the header of the input: what failed can be mended and sent again."""
    job = import_of(door, job_id, caller.actor.sees)
    kind, pieces = outcomes.download(lambda: transaction(door.pool), job, outcome, file)
    return streamed(pieces, kind, f"{job.job_key}-{outcome}")


@router.post("/{job_id}/cancel", summary="Cancel an import")
def cancel_import(job_id: JobKey, door: TheDoor, caller: Writer) -> ImportWithErrors:
    """Cancels an import: what is in work ends at the next slice border. Rows that are loaded stay; undo removes
    them."""
    job = import_of(door, job_id, caller.actor.sees)
    jobs.cancel(door.pool, job.job_key, caller.actor)
    return ImportWithErrors(**answers.found(door.pool, job_id, caller.actor.sees))


@router.post(
    "/{job_id}/replay",
    summary="Run the rejects again",
    status_code=202,
    response_model=ImportWithErrors,
    responses={200: {"model": ImportWithErrors, "description": "They were run again before."}},
    openapi_extra=described.sent({}, {}, required=False),
)
async def replay_import(
    job_id: JobKey,
    request: Request,
    door: TheDoor,
    caller: Writer,
    idempotency_key: Key = None,
    prefer: Prefer = None,
) -> Response:
    """Runs the rejected records of an import that is over once more, as an import of their own, because a rule or
    other data was mended. A body, or a form with a `file`, brings the records that somebody has mended instead; there
    may be any number of such imports, and an `Idempotency-Key` makes it safe to send one again."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        chosen = door.settings
        submitted = await run_in_threadpool(
            replays.replay, door.pool, job_id, landing.place(chosen), access_of(chosen), caller.actor
        )
        return await answers.submitted(
            request, door.pool, submitted.job, created=submitted.created, prefer=prefer, headers={}
        )
    first = await run_in_threadpool(import_of, door, job_id, caller.actor.sees)
    sender = caller.sender(first.owner, checked(idempotency_key))
    arrival = sent_of(request, (), lambda _: Mended())
    work = partial(submitting.mended, door, caller, sender, job_id, arrival)
    submitted, admission = await in_a_thread(request, work)
    return await answers.submitted(
        request, door.pool, submitted.job, created=submitted.created, prefer=prefer, headers=admission.headers
    )


class Undone(BaseModel):
    """What was taken back, or could be."""

    removed: Annotated[int, Field(description="Rows that were taken back; with `dry_run`, that could be.")]
    changed: Annotated[int, Field(description="Rows that were changed since, and stay.")]
    referred_to: Annotated[int, Field(description="Rows that others refer to, and stay.")]
    dry_run: bool


@router.post("/{job_id}/undo", summary="Take an import back")
def undo_import(
    job_id: JobKey,
    door: TheDoor,
    caller: Writer,
    dry_run: Annotated[bool, Query(description="Only count what could be taken back.")] = False,
) -> Undone:
    """Removes the rows that an import in the mode insert added, except those that were changed since or that other rows
    refer to."""
    job = import_of(door, job_id, caller.actor.sees)
    resource = undo.undoable(job)
    with transaction(door.pool) as connection:
        found = undo.count(connection, resource, job.job_id)
    removed = found.free if dry_run else undo.undo(door.pool, job, caller.actor)
    return Undone(removed=removed, changed=found.changed, referred_to=found.referred_to, dry_run=dry_run)


def import_of(door: Door, job_key: str, owner: str | None) -> Job:
    with transaction(door.pool) as connection:
        return submission.import_job(connection, job_key, owner)


def streamed(pieces: Iterator[bytes], kind: str, name: str) -> StreamingResponse:
    """Return an answer that is read from the database piece by piece, as quickly as the client takes it. An error in
    the middle breaks it off, so that no client takes it for whole."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"', "Cache-Control": "no-store"}
    return StreamingResponse(pieces, media_type=MEDIA_TYPES[kind], headers=headers)
