"""Jobs and their items: rows are sent to be looked up; jobs of all kinds are looked at and controlled."""

from functools import partial
from typing import Annotated

from anyio import CapacityLimiter, WouldBlock
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.files import described
from bulk_pipelines.api.files.receiving import in_a_thread
from bulk_pipelines.api.files.sent import media_type
from bulk_pipelines.api.idempotency import Key, checked
from bulk_pipelines.api.imports import resumption
from bulk_pipelines.api.items import answers, lists, requests
from bulk_pipelines.api.items.answers import GridItems, JobAnswer, Jobs, Kicked, Reprocessed, job_json
from bulk_pipelines.api.items.lists import Sort, words_of
from bulk_pipelines.api.items.reprocessing import Reprocess
from bulk_pipelines.api.moments import Moment
from bulk_pipelines.api.owners.callers import ForOwner, Reader, Writer, acting_for, looking_at
from bulk_pipelines.api.pages import Cursor, PageSize, after_id, cursor_of
from bulk_pipelines.api.preferences import Prefer
from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.api.streams import Stream
from bulk_pipelines.database.pool import statements, transaction
from bulk_pipelines.engine.jobs import jobs, listing
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.words import job_states
from bulk_pipelines.imports.sent.appending import ROWS
from bulk_pipelines.processing import control
from bulk_pipelines.processing.report import grid
from bulk_pipelines.processing.report.grid import GridFormat
from bulk_pipelines.processing.submission import processing_job

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

JobKey = Annotated[str, Path(description="The job's key.", max_length=100, examples=["J20260110_000777"])]
LONGEST_KICK = 60_000
MEDIA_TYPES = {
    GridFormat.CSV: "text/csv; charset=utf-8",
    GridFormat.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    GridFormat.PARQUET: "application/vnd.apache.parquet",
}

BODIES = described.sent(
    requests.FIELDS, {"recipe": "products"}, requests.Address, {"url": "https://example.org/products.csv"}
)


@router.post(
    "",
    summary="Have rows looked up",
    status_code=202,
    response_model=JobAnswer,
    responses={
        200: {"model": JobAnswer, "description": "The same request was made before, or `Prefer: wait` was met."},
        201: {"description": "A resumable upload has begun: its address is in Location."},
    },
    openapi_extra=BODIES,
)
async def submit_rows(
    request: Request,
    door: TheDoor,
    caller: Writer,
    idempotency_key: Key = None,
    prefer: Prefer = None,
    owner: ForOwner = None,
) -> Response:
    """Sends rows to be worked by a recipe: as a form (`file`), or as the body with the options in the address; or names
    a file as JSON. With `Upload-Complete` it is a resumable upload. The rows are persisted first. Their results are
    read from the job's items, or exported as a file at any time. An `Idempotency-Key` makes it safe to send the request
    again."""
    sender = caller.sender(acting_for(caller, owner), checked(idempotency_key))
    if resumption.begins(request):
        given = requests.given(request)
        await run_in_threadpool(partial(requests.options_of, door, given, admin=caller.actor.admin))
        return await resumption.begin(request, door, sender, prefer, {ROWS: given})
    if media_type(request) == "application/json":
        asked = await run_in_threadpool(requests.address_of, await request.body())
        sender = caller.sender(sender.owner, sender.idempotency_key, asked.priority)
        submitted, admission = await run_in_threadpool(requests.from_address, door, caller, sender, asked)
    else:
        arrival = await run_in_threadpool(requests.rows_sent, request, door, caller)
        work = partial(requests.sent, door, sender, arrival, resumption.content_length(request))
        submitted, admission = await in_a_thread(request, work)
    return await answers.submitted(
        request, door.pool, submitted.job, created=submitted.created, prefer=prefer, headers=admission.headers
    )


@router.get("", summary="List jobs of all kinds")
def list_jobs(
    door: TheDoor,
    caller: Reader,
    status: Annotated[
        list[str] | None, Query(description="Only in one of these queue states: QUEUED, RUNNING, PAUSED, DONE, FAILED.")
    ] = None,
    job_type: Annotated[str | None, Query(alias="jobType", description="Only this kind.", max_length=200)] = None,
    since: Annotated[Moment | None, Query(alias="from", description="Submitted not before this time.")] = None,
    until: Annotated[Moment | None, Query(alias="to", description="Submitted before this time.")] = None,
    owner: ForOwner = None,
    size: PageSize = 100,
    after: Cursor = None,
) -> Jobs:
    """Lists jobs, the newest first. Every page costs the same."""
    wanted = listing.Wanted(
        looking_at(caller, owner),
        None if job_type is None else [job_type],
        job_states(words_of(status)),
        since=since,
        until=until,
    )
    with transaction(door.pool) as connection:
        there = listing.page(connection, wanted, size, after_id(after))
    more = cursor_of(there[-1].job_id) if len(there) == size else None
    return Jobs(jobs=[JobAnswer(**job_json(each)) for each in there], next=more)


@router.get("/{job_id}", summary="One job")
def show_job(job_id: JobKey, door: TheDoor, caller: Reader) -> JobAnswer:
    """Shows how far a job is: its state, and its items by their status."""
    return JobAnswer(**job_json(found(door, job_id, caller.actor.sees)))


@router.get("/{job_id}/items", summary="The items of a job")
def list_items(
    job_id: JobKey,
    door: TheDoor,
    caller: Reader,
    statuses: Annotated[
        list[str] | None,
        Query(
            description="Only these, between commas: PENDING, PROCESSING, DONE, ERROR, NOT_FOUND, SKIPPED.",
            examples=[["PENDING,PROCESSING"]],
        ),
    ] = None,
    status: Annotated[list[str] | None, Query(description="The same as `statuses`.")] = None,
    size: PageSize = 100,
    after: Cursor = None,
    page: Annotated[
        int | None,
        Query(description=f"The number of a page, in place of `after`, for the first {lists.DEEPEST:,} rows.", ge=1),
    ] = None,
    sort: Annotated[
        Sort, Query(description="updated: those that changed last come last; row: the order of the source.")
    ] = "updated",
) -> GridItems:
    """Lists the items of a job with their rows of the grid. Every page costs the same, however deep it is."""
    asked = lists.Asked(words_of(statuses, status), sort, size, after, page)
    with transaction(door.pool) as connection:
        return GridItems(**lists.of_job(connection, job_id, caller.actor.sees, asked))


@router.post("/{job_id}/pause", summary="Pause a job")
def pause_job(job_id: JobKey, door: TheDoor, caller: Writer) -> JobAnswer:
    """Pauses a job: its workers stop at their next slice border."""
    with transaction(door.pool) as connection:
        return JobAnswer(**job_json(jobs.pause(connection, job_id, caller.actor)))


@router.post("/{job_id}/resume", summary="Go on with a paused job")
def resume_job(job_id: JobKey, door: TheDoor, caller: Writer) -> JobAnswer:
    """Goes on with a paused job."""
    with transaction(door.pool) as connection:
        return JobAnswer(**job_json(jobs.resume(connection, job_id, caller.actor)))


@router.post("/{job_id}/cancel", summary="Cancel a job")
def cancel_job(job_id: JobKey, door: TheDoor, caller: Writer) -> JobAnswer:
    """Cancels a job: what waits is cancelled now, what is in work ends at the next slice border."""
    return JobAnswer(**job_json(jobs.cancel(door.pool, job_id, caller.actor)))


@router.post("/{job_id}/kickoff", summary="Work a job for some seconds")
async def kick_off(
    job_id: JobKey,
    request: Request,
    door: TheDoor,
    caller: Writer,
    duration: Annotated[
        int, Query(alias="durationMs", description="For how long, in milliseconds.", ge=1, le=LONGEST_KICK)
    ] = 5_000,
) -> Kicked:
    """Works a job that looks up rows in the API's own process for some seconds, beside whoever works it elsewhere. This
    may be repeated. One process works only some slices at once; a request for one more is answered with 503 and
    `Retry-After`."""
    slots: CapacityLimiter = request.app.state.kick_offs
    try:
        slots.acquire_on_behalf_of_nowait(request)
    except WouldBlock:
        said = f"this process works {slots.total_tokens:g} slices already, as many as BULK_API_KICKOFFS allows"
        raise Refusal("unavailable", said, headers={"Retry-After": "1"}) from None
    try:
        with door.stops.one_more() as stop:
            work = partial(control.kick_off, door.pool, job_id, duration / 1_000, by=caller.actor, stop=stop)
            kicked = await run_in_threadpool(work)
    finally:
        slots.release_on_behalf_of(request)
    drained = kicked.drained
    due = None if drained is None or drained.seconds_to_next is None else round(drained.seconds_to_next * 1_000)
    worked = drained.worked if drained else 0
    return Kicked(**job_json(kicked.job), worked=worked, ended=kicked.ended, retry_after_ms=due)


@router.post("/{job_id}/reprocess", summary="Try items again")
def reprocess(job_id: JobKey, door: TheDoor, caller: Writer, asked: Reprocess) -> Reprocessed:
    """Tries rows again that failed, or for which nothing was found: all of the job, those that are named, or all that
    match a filter. A job that was over goes on."""
    count = control.reprocess(
        door.pool,
        job_id,
        asked.chosen(),
        variants=asked.variants,
        keep_attempts=not asked.reset_attempts,
        dry_run=asked.dry_run,
        by=caller.actor,
    )
    return Reprocessed(jobId=job_id, items=count, dryRun=asked.dry_run)


@router.post(
    "/{job_id}/export",
    summary="The grid of a job as a file",
    response_class=Response,
    responses={200: {"content": {each.partition(";")[0]: {} for each in MEDIA_TYPES.values()}}},
)
def export_grid(
    job_id: JobKey,
    request: Request,
    door: TheDoor,
    caller: Reader,
    format: Annotated[GridFormat, Query(description="The file's format.")] = GridFormat.XLSX,  # noqa: A002
) -> Stream:
    """Streams the grid of one snapshot: a row for each item, in the order of the source. Nothing is computed again, so
    it can be had at any time. One process streams only some grids at once; one more is refused with `Retry-After`."""
    with transaction(door.pool) as connection:
        job = processing_job(connection, job_id, caller.actor.sees)
    return Stream(
        request.app.state.streams,
        caller.actor.name,
        lambda _: grid.written(door.pool, job.job_key, format),
        MEDIA_TYPES[format],
        {"Content-Disposition": f'attachment; filename="{job.job_key}.{format}"', "Cache-Control": "no-store"},
    )


def found(door: Door, job_key: str, owner: str | None = None) -> Job:
    with statements(door.pool) as connection:
        return jobs.find(connection, job_key, owner)
