"""Rows are tried again: those that are chosen, or all that match a filter, which are counted first."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Sent, Viewer
from bulk_pipelines.console.pages import job as jobs
from bulk_pipelines.console.pages.job import JobKey, around, seen_now
from bulk_pipelines.console.shown import several
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import pages
from bulk_pipelines.engine.jobs import dlq, redrive, skipping
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.redrive import REDRIVABLE
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.errors import BulkError, ErrorClass, InvalidInput
from bulk_pipelines.processing import control
from bulk_pipelines.processing.control import Chosen
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.submission import processing_job
from bulk_pipelines.processing.work import recipe_of_job

router = APIRouter()
STATES = {"ERROR": "error", "NOT_FOUND": "not found"}


def item_id(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidInput("item", f"{text[:50]!r} is not the id of an item")
    return int(text)


def counted(job: Job, states: Iterable[ItemState]) -> int:
    """Return how many items the job has in these states, by its counters."""
    return sum(getattr(job, f"{state.lower()}_items") for state in states)


def acted(door: Door, job: Job, what: str, states: Sequence[str], item_ids: tuple[int, ...] | None, by: Actor) -> str:
    """Do something to the chosen items, or to all in these states, and return in words what came of it. Items whose
    state does not allow it are left alone, and counted in the answer."""
    if item_ids is not None and not item_ids:
        raise InvalidInput("item", "no item is chosen: tick some, or choose all that match")
    meant = len(item_ids) if item_ids is not None else counted(job, [ItemState(each) for each in states])
    match what:
        case "reprocess" | "count":
            done = tried_again(door, job, states, item_ids, by, dry_run=what == "count")
            said = "would be tried again" if what == "count" else "tried again"
        case "skip":
            done = skipping.skip(door.pool, job.job_key, item_ids or every_id(door, job, states), by)
            said = "left out"
        case "discard":
            done = dlq.discard_of(door.pool, job.job_key, list(item_ids or every_id(door, job, states)), by)
            said = "given up for good"
        case _:
            raise InvalidInput("act", f"{what[:50]!r} cannot be done to items")
    left = max(0, meant - done)
    passed = f" {several(left, 'item')} left alone, because their state does not allow it." if left else ""
    return f"{several(done, 'item')} {said}.{passed}"


def tried_again(
    door: Door, job: Job, states: Sequence[str], item_ids: tuple[int, ...] | None, by: Actor, *, dry_run: bool
) -> int:
    meant = tuple(state for state in REDRIVABLE if item_ids is not None or state in states)
    if not meant:
        return 0
    if job.kind in KINDS:
        return control.reprocess(door.pool, job.job_key, Chosen(meant, item_ids=item_ids), dry_run=dry_run, by=by)
    if dry_run:
        return counted(job, meant) if item_ids is None else len(item_ids)
    return redrive.redrive(door.pool, job.job_key, meant, item_ids, by=by)


def every_id(door: Door, job: Job, states: Sequence[str]) -> tuple[int, ...]:
    """Return the ids of all items in these states."""
    found: list[int] = []
    after = None
    while True:
        with transaction(door.pool) as connection:
            page = pages.of_job(connection, job.job_key, statuses=states, size=pages.MOST, after=after)
        found += [each.item_id for each in page.items]
        after = page.after
        if after is None:
            return tuple(dict.fromkeys(found))


class Wanted(BaseModel):
    """Which rows are to be tried again, as the address has it."""

    state: list[str] = []
    error: str | None = None
    error_class: str | None = None
    where: str | None = None
    variant: list[str] = []
    keep: bool = False

    def chosen(self) -> Chosen:
        conditions = [line.strip() for line in (self.where or "").splitlines() if line.strip()]
        return Chosen.parse(self.state, (), conditions, self.error, self.error_class)


@router.get("/jobs/{job_key}/reprocess")
async def ask(
    job_key: JobKey, request: Request, door: TheDoor, caller: Viewer, wanted: Annotated[Wanted, Query()]
) -> Response:
    """Count the rows that match a filter, before anything is done to them."""
    seen = await seen_now(request, job_key, caller)
    count, wrong = None, None
    if request.query_params:
        try:
            count = await run_in_threadpool(worked, door, seen.job, wanted, caller.actor, dry_run=True)
        except BulkError as error:
            wrong = str(error)
    return frame.page(
        request,
        caller,
        "reprocess.html",
        400 if wrong else 200,
        tab="grid",
        wanted=wanted,
        count=count,
        wrong=wrong,
        words=STATES,
        classes=[*ErrorClass, "not_found", "died"],
        variants=await run_in_threadpool(variants_of, door, seen.job),
        **around(door, seen, caller),
    )


def worked(door: Door, job: Job, wanted: Wanted, by: Actor, *, dry_run: bool) -> int:
    return control.reprocess(
        door.pool,
        job.job_key,
        wanted.chosen(),
        variants=wanted.variant,
        keep_attempts=wanted.keep,
        dry_run=dry_run,
        by=by,
    )


def variants_of(door: Door, job: Job) -> list[str]:
    with transaction(door.pool) as connection:
        return [each.name for each in recipe_of_job(processing_job(connection, job.job_key)).variants]


@router.post("/jobs/{job_key}/reprocess")
async def act(job_key: JobKey, door: TheDoor, sent: Sent) -> Response:
    form = sent.form
    job = await run_in_threadpool(jobs.found, door, job_key, sent.caller)
    wanted = Wanted(
        state=form.every("state"),
        error=form.one("error") or None,
        error_class=form.one("error_class") or None,
        where=form.one("where") or None,
        variant=form.every("variant"),
        keep=form.one("keep") == "true",
    )
    count = await run_in_threadpool(worked, door, job, wanted, sent.caller.actor, dry_run=False)
    return frame.onward(f"/console/jobs/{job_key}", f"{several(count, 'row')} tried again.")
