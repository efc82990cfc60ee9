"""The items of all jobs that wait or are worked. Every page costs the same, whatever the number of items."""

from collections import defaultdict
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners.callers import Caller, looking_at
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Sent, Viewer
from bulk_pipelines.console.pages import job as jobs
from bulk_pipelines.console.pages import reprocessing
from bulk_pipelines.console.pages.jobs import day
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution.request import KIND as DISTRIBUTION
from bulk_pipelines.engine.items import pages
from bulk_pipelines.engine.items.pages import Page
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.words import item_states
from bulk_pipelines.errors import InvalidInput, NotFound
from bulk_pipelines.exports import kind as exports
from bulk_pipelines.imports import kind as imports
from bulk_pipelines.processing.kind import KINDS as PROCESSING

router = APIRouter()
SIZE = 100
WORDS = ("PENDING", "PROCESSING", "ERROR", "NOT_FOUND")
USUAL = ["PENDING", "PROCESSING"]
MOST = 1_000


class Chosen(BaseModel):
    """The filters, as they stand in the address."""

    status: list[str] = []
    kind: str | None = None
    job: str | None = None
    owner: str | None = None
    since: str | None = None
    until: str | None = None


@router.get("/pending")
async def show(
    request: Request,
    door: TheDoor,
    caller: Viewer,
    chosen: Annotated[Chosen, Query()],
    after: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    refuse_hidden(door)
    given = {name: value for name, value in chosen.model_dump().items() if value}
    page = await run_in_threadpool(read, door, chosen, caller, after)
    return frame.page(
        request,
        caller,
        "pending.html",
        page=page,
        chosen=chosen,
        statuses=chosen.status or USUAL,
        words=WORDS,
        kinds=[*imports.known_kinds(), *exports.known_kinds(), DISTRIBUTION, *PROCESSING],
        filtered=bool(given),
        next=frame.address("/console/pending", **given, after=page.after) if page.after else None,
    )


def refuse_hidden(door: Door) -> None:
    if not door.settings.pending_dashboard:
        raise NotFound("BULK_PENDING_DASHBOARD turns this page off: each job's page has its items")


def read(door: Door, chosen: Chosen, caller: Caller, after: str | None) -> Page:
    states = item_states(chosen.status or USUAL)
    since, until = day("since", chosen.since), day("until", chosen.until)
    with transaction(door.pool) as connection:
        if chosen.job:
            owner = caller.actor.sees
            return pages.of_job(
                connection, chosen.job, statuses=states, size=SIZE, after=after, owner=owner, since=since, until=until
            )
        owner = looking_at(caller, (chosen.owner or None) if caller.actor.admin else None)
        wanted = pages.Wanted(owner, chosen.kind or None, since, until)
        return pages.of_all(connection, wanted, statuses=states, size=SIZE, after=after)


@router.post("/pending")
async def act(door: TheDoor, sent: Sent) -> Response:
    """Try the chosen items again, each in its own job."""
    refuse_hidden(door)
    chosen: dict[str, list[int]] = defaultdict(list)
    for each in sent.form.every("item")[:MOST]:
        job_key, _, item = each.partition(":")
        chosen[job_key].append(reprocessing.item_id(item))
    if not chosen:
        raise InvalidInput("item", "no item is chosen: tick some")

    def tried() -> list[str]:
        by, said = sent.caller.actor, []
        for key, ids in chosen.items():
            job = jobs.found(door, key, sent.caller)
            came = reprocessing.acted(door, job, "reprocess", [str(each) for each in ItemState], tuple(ids), by)
            said.append(f"{key}: {came}")
        return said

    said = await run_in_threadpool(tried)
    return frame.onward(frame.address("/console/pending", status=sent.form.every("status")), " ".join(said))
