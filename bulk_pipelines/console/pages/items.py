"""The items of a job, as a list and as the grid of its results. Chosen items are tried again or left out. Another page
shows one item with all that is kept of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.endpoints.items import MEDIA_TYPES
from bulk_pipelines.console import frame, shown
from bulk_pipelines.console.access import Sent, Viewer
from bulk_pipelines.console.pages import job as jobs
from bulk_pipelines.console.pages import reprocessing
from bulk_pipelines.console.pages.job import JobKey, around, seen_now
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import pages, showing
from bulk_pipelines.engine.items.pages import ItemRow
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import OPEN_ITEMS, ItemState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.report import grid as grids
from bulk_pipelines.processing.report.grid import GridFormat

router = APIRouter()
SIZE = 100
OPEN, ALL = "open", "all"
State = Annotated[str | None, Query(max_length=20)]
After = Annotated[str | None, Query(max_length=1_000)]


@dataclass(frozen=True)
class Found:
    """A page of items, with their rows of the grid if the job has one."""

    items: list[ItemRow]
    after: str | None
    headers: tuple[str, ...] = ()
    cells: dict[int, dict[str, str | None]] | None = None


def states_of(state: str) -> list[str]:
    if state in (ALL, OPEN):
        return list(ItemState if state == ALL else OPEN_ITEMS)
    if state not in ItemState.__members__:
        raise InvalidInput("state", f"{state!r} is none of {', '.join((ALL, OPEN, *ItemState))}")
    return [state]


@router.get("/jobs/{job_key}/items")
async def show(
    job_key: JobKey, request: Request, door: TheDoor, caller: Viewer, state: State = None, after: After = None
) -> Response:
    """Show the items, those first that have not changed for longest. A job that is not over shows its open items."""
    seen = await seen_now(request, job_key, caller)
    chosen = state or (ALL if seen.job.finished else OPEN)
    found = await run_in_threadpool(listed, door, seen.job, chosen, after)
    return drawn(request, caller, "items", found, chosen, **around(door, seen, caller))


@router.get("/jobs/{job_key}/grid")
async def show_grid(
    job_key: JobKey, request: Request, door: TheDoor, caller: Viewer, state: State = None, after: After = None
) -> Response:
    """Show the rows with the recipe's columns, in the order of the source. Rows in one state come in another order:
    those first that have not changed for longest."""
    seen = await seen_now(request, job_key, caller)
    found = await run_in_threadpool(rows, door, seen.job, state or ALL, after)
    return drawn(request, caller, "grid", found, state or ALL, **around(door, seen, caller))


def drawn(request: Request, caller: Viewer, tab: str, found: Found, state: str, **values: Any) -> Response:
    job: Job = values["job"]
    place = f"/console/jobs/{job.job_key}/{tab}"
    return frame.page(
        request,
        caller,
        "items.html",
        tab=tab,
        found=found,
        state=state,
        place=place,
        states=[(each.value, word, reprocessing.counted(job, [each])) for each, (word, _) in shown.ITEM_WORDS.items()],
        open_count=job.open_items,
        matching=reprocessing.counted(job, [ItemState(each) for each in states_of(state)]),
        formats=list(GridFormat),
        next=frame.address(place, state=state, after=found.after) if found.after else None,
        **values,
    )


def listed(door: Door, job: Job, state: str, after: str | None) -> Found:
    with transaction(door.pool) as connection:
        page = pages.of_job(connection, job.job_key, statuses=states_of(state), size=SIZE, after=after)
    return Found(page.items, page.after)


def rows(door: Door, job: Job, state: str, after: str | None) -> Found:
    with transaction(door.pool) as connection:
        shape = grids.of_job(connection, job.job_key)
        if state == ALL:
            page = pages.in_order(connection, job.job_key, size=SIZE, after=after)
        else:
            page = pages.of_job(connection, job.job_key, statuses=states_of(state), size=SIZE, after=after)
        cells = grids.cells_of(connection, shape, [each.item_id for each in page.items]) if page.items else {}
    return Found(page.items, page.after, tuple(each.header for each in shape.columns), cells)


@router.post("/jobs/{job_key}/items")
async def act(job_key: JobKey, door: TheDoor, sent: Sent) -> Response:
    """Try items again, count them, leave them out or give them up: those that are ticked, or all in the state that the
    page shows."""
    job = await run_in_threadpool(jobs.found, door, job_key, sent.caller)
    form = sent.form
    state = form.one("state", ALL)
    ids = None if form.one("scope") == "all" else tuple(reprocessing.item_id(each) for each in form.every("item"))
    said = await run_in_threadpool(
        reprocessing.acted, door, job, form.one("act"), states_of(state), ids, sent.caller.actor
    )
    tab = "grid" if form.one("tab") == "grid" and job.kind in KINDS else "items"
    return frame.onward(frame.address(f"/console/jobs/{job_key}/{tab}", state=state), said)


@router.get("/jobs/{job_key}/items/{item_id}")
async def show_item(
    job_key: JobKey,
    item_id: Annotated[int, Path(ge=0, le=(1 << 63) - 1)],
    request: Request,
    door: TheDoor,
    caller: Viewer,
) -> Response:
    seen = await seen_now(request, job_key, caller)

    def read() -> dict[str, Any]:
        with transaction(door.pool) as connection:
            return showing.of_job(connection, seen.job, item_id)

    item = await run_in_threadpool(read)
    result = item["result"] or {}
    return frame.page(
        request,
        caller,
        "item.html",
        tab="items",
        item=item,
        evidence=result.get("evidence") or {},
        trace=(result.get("envelope") or {}).get("tracing") or {},
        **around(door, seen, caller),
    )


@router.get("/jobs/{job_key}/grid.{kind}")
async def download(job_key: JobKey, kind: GridFormat, door: TheDoor, caller: Viewer) -> Response:
    """Stream the grid as a file, of one snapshot: the same cells as the page shows."""
    job = await run_in_threadpool(jobs.found, door, job_key, caller)
    if job.kind not in KINDS:
        raise InvalidInput("job", f"{job_key} processes no rows: it has no grid")
    pieces: Iterator[bytes] = grids.written(door.pool, job.job_key, kind)
    name = {"Content-Disposition": f'attachment; filename="{job.job_key}.{kind}"', "Cache-Control": "no-store"}
    return StreamingResponse(pieces, media_type=MEDIA_TYPES[kind], headers=name)
