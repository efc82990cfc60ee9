"""The page of a job: what was asked, how far the job is, and what can be done to it."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.api.pages import after_id, cursor_of
from bulk_pipelines.api.states import State
from bulk_pipelines.console import controls, frame, live, shown
from bulk_pipelines.console.access import Viewer, Watcher
from bulk_pipelines.console.live import Seen
from bulk_pipelines.console.news import News
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.distribution import report as distribution
from bulk_pipelines.distribution.request import KIND as DISTRIBUTION
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.engine.jobs import audit, jobs, listing
from bulk_pipelines.engine.jobs.audit import Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.listing import Run
from bulk_pipelines.exports import completion as exports
from bulk_pipelines.exports import kind as exporting
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.imports import kind as imports
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.report import picture
from bulk_pipelines.imports.report.picture import Batch
from bulk_pipelines.imports.report.report import worth_showing
from bulk_pipelines.processing.kind import KINDS as PROCESSING
from bulk_pipelines.processing.report import report as processing
from bulk_pipelines.settings import addresses as pages_of
from bulk_pipelines.storage import addresses

router = APIRouter()
JobKey = Annotated[str, Path(max_length=100)]
SIZE = 50
MOST_COUNTED = 5_000
"""The largest job whose outcomes are counted anew for each page, in rows."""


@dataclass(frozen=True)
class Details:
    """What the page of one job shows besides how far it is."""

    asked: list[tuple[str, str]]
    runs: list[Run] = field(default_factory=list)
    files: list[ImportFile] = field(default_factory=list)
    file_count: int = 0
    batches: list[Batch] = field(default_factory=list)
    exported: dict[str, Any] | None = None
    distributed: distribution.Figures | None = None
    outcomes: dict[str, int] = field(default_factory=dict)


def kind_of(job: Job) -> str:
    """Return the word for what a job does. It decides which parts the job's page has."""
    for word, kinds in (
        ("import", imports.known_kinds()),
        ("export", exporting.known_kinds()),
        ("process", PROCESSING),
    ):
        if job.kind in kinds:
            return word
    return "distribution" if job.kind == DISTRIBUTION else "other"


def found(door: Door, job_key: str, caller: Caller) -> Job:
    """Return a job that the caller may see."""
    with transaction(door.pool) as connection:
        return jobs.find(connection, job_key, caller.actor.sees)


@router.get("/jobs/{job_key}")
async def show(job_key: JobKey, request: Request, door: TheDoor, caller: Viewer) -> Response:
    seen = await seen_now(request, job_key, caller)
    details = await run_in_threadpool(details_of, door, seen.job)
    return frame.page(request, caller, "job.html", tab="overview", details=details, **around(door, seen, caller))


@router.get("/jobs/{job_key}/news")
async def watch(job_key: JobKey, request: Request, door: TheDoor, caller: Watcher) -> Response:
    """Tell how the job gets on, until it is over."""
    await seen_now(request, job_key, caller)

    async def drawn(states: list[State]) -> str:
        seen = [live.of_state(state) for state in states]
        return "".join(frame.part(request, caller, "job_news.html", **around(door, each, caller)) for each in seen)

    return News(request, caller, drawn, frozenset((job_key,)))


async def seen_now(request: Request, job_key: str, caller: Caller) -> Seen:
    door: Door = request.app.state.door
    seen = await run_in_threadpool(live.of_keys, door.pool, [job_key])
    if not seen or caller.actor.sees not in (None, seen[0].job.owner):
        raise UnknownJob(job_key)
    return seen[0]


def around(door: Door, seen: Seen, caller: Caller) -> dict[str, Any]:
    """Return what all parts of a job's page show of it."""
    return {
        "seen": seen,
        "job": seen.job,
        "what": kind_of(seen.job),
        "controls": controls.offered(seen, kind_of(seen.job)) if caller.actor else [],
        "tone": shown.JOB_WORDS[seen.job.status][1],
        "ui": pages_of.dagster(door.settings),
    }


def details_of(door: Door, job: Job) -> Details:
    with transaction(door.pool) as connection:
        runs = listing.runs(connection, job)
        match kind_of(job):
            case "import":
                files = progress.files(connection, job.job_id)
                batches = picture.thinned(picture.batches(connection, job.job_id))
                return Details(shown.asked(job.params), runs, worth_showing(files), len(files), list(batches))
            case "export":
                given = ExportRequest.from_params(job.params).shown()
                result, _ = exports.file_of(connection, job)
                return Details(shown.asked(given), runs, exported=exported(job, result))
            case "distribution":
                figures = distribution.of_job(connection, job)
                asked = [("inputs", shown.number(job.total_items))]
                return Details(asked, runs, distributed=figures)
            case "process":
                return Details(processed(job), runs, outcomes=outcomes(connection, job))
    return Details(shown.asked(job.params), runs)


def exported(job: Job, result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what is known of an export's file."""
    return (result or {}) | job.result if job.result else None


def processed(job: Job) -> list[tuple[str, str]]:
    params = job.params
    source = addresses.redacted(params["source"]) if params.get("source") else ""
    rows = [
        ("source", shown.plain(source.rpartition("/")[2])),
        ("query", "a query of this database" if params.get("query") else ""),
    ]
    return shown.asked(params) + [(name, value) for name, value in rows if value]


def outcomes(connection: Connection, job: Job) -> dict[str, int]:
    """Return how many rows have each outcome: as counted at the end of the job, or as they are now if the job has few
    rows. To count very many would take too long for a page."""
    if job.result is not None and "outcomes" in job.result:
        return dict(sorted(job.result["outcomes"].items()))
    if job.total_items > MOST_COUNTED:
        return {}
    return dict(sorted(processing.counts(connection, job.job_id).outcomes.items()))


@router.get("/jobs/{job_key}/audit")
async def show_audit(
    job_key: JobKey,
    request: Request,
    door: TheDoor,
    caller: Viewer,
    after: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    seen = await seen_now(request, job_key, caller)
    before = after_id(after)

    def read() -> list[audit.Entry]:
        with transaction(door.pool) as connection:
            return audit.page(connection, Wanted(job_key=job_key), SIZE, before, caller.actor.sees)

    entries = await run_in_threadpool(read)
    more = cursor_of(entries[-1].audit_id) if len(entries) == SIZE else None
    place = f"/console/jobs/{job_key}/audit"
    return frame.page(
        request,
        caller,
        "job_audit.html",
        tab="audit",
        entries=entries,
        next=frame.address(place, after=more) if more else None,
        **around(door, seen, caller),
    )
