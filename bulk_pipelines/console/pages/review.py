"""Review: the page shows one row at a time of which a recipe is not sure, beside its candidates, and people decide
about it. Another page proposes thresholds that agree with the decisions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Form, Sent, Viewer
from bulk_pipelines.console.pages.job import JobKey, around, seen_now
from bulk_pipelines.console.shown import several
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.processing import types
from bulk_pipelines.processing.results import Outcome
from bulk_pipelines.processing.review import deciding, thresholds, uncertain
from bulk_pipelines.processing.review.deciding import Decided
from bulk_pipelines.processing.review.uncertain import REVIEWED, Row
from bulk_pipelines.processing.submission import processing_job
from bulk_pipelines.processing.work import recipe_of_job

router = APIRouter()
PRECISION = 0.95
RowKey = Annotated[str, Query(max_length=2_000)]


@dataclass(frozen=True)
class Found:
    """The row that is shown, and what else the page must know."""

    row: Row | None
    more: bool
    """Whether other rows come behind it."""
    any_entry: bool
    """Whether an entry can be named that is no candidate."""

    @property
    def columns(self) -> list[str]:
        """The columns of the row, then those that only candidates have."""
        return names(self.row.row, *(each.answer for each in self.row.candidates)) if self.row is not None else []

    @property
    def features(self) -> list[str]:
        return names(*(each.features for each in self.row.candidates)) if self.row is not None else []


def names(*given: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for each in given for name in each))


@router.get("/jobs/{job_key}/review")
async def show(
    job_key: JobKey,
    request: Request,
    door: TheDoor,
    caller: Viewer,
    outcome: Annotated[str, Query(max_length=20)] = Outcome.AMBIGUOUS,
    after: RowKey = "",
    row: RowKey = "",
    last: RowKey = "",
) -> Response:
    """Show the first row behind `after`, or the one that is named, whatever came of it."""
    seen = await seen_now(request, job_key, caller)
    found = await run_in_threadpool(read, door, job_key, caller, outcome, after, row)
    place = f"/console/jobs/{job_key}/review"
    shown = found.row
    return frame.page(
        request,
        caller,
        "review.html",
        tab="review",
        found=found,
        row=shown,
        place=place,
        outcome=outcome,
        outcomes=[each.value for each in REVIEWED],
        after=after,
        alone=row,
        back=frame.address(place, row=last) if last and (shown is None or shown.item_key != last) else None,
        next=frame.address(place, outcome=outcome, after=shown.item_key) if shown is not None and found.more else None,
        left=left(seen.job, outcome),
        **around(door, seen, caller),
    )


def read(door: Door, job_key: str, caller: Caller, outcome: str, after: str, row: str) -> Found:
    owner = caller.actor.sees
    with transaction(door.pool) as connection:
        recipe = recipe_of_job(processing_job(connection, job_key, owner))
        any_entry = types.find(recipe.type).entries is not None
        if row:
            return Found(uncertain.one(connection, job_key, row, owner), False, any_entry)
        rows = uncertain.page(connection, job_key, outcome=outcome, after=after, size=2, owner=owner)
    return Found(rows[0] if rows else None, len(rows) > 1, any_entry)


def left(job: Job, outcome: str) -> int | None:
    """Return how many rows have this outcome; None while the job is not over, because it is counted at its end."""
    outcomes = (job.result or {}).get("outcomes")
    return outcomes.get(outcome, 0) if outcomes is not None else None


@router.post("/jobs/{job_key}/review")
async def decide(job_key: JobKey, door: TheDoor, sent: Sent) -> Response:
    """Decide about a row, and go on to the next: a row that was decided has mostly left the list, so the next one has
    taken its place."""
    form = sent.form
    row, verdict = exact(form, "row") or "", form.one("verdict")
    entry = form.one("other") or exact(form, "entry")
    decided = await run_in_threadpool(deciding.decide, door.pool, job_key, row, verdict, entry, sent.caller.actor)
    place = f"/console/jobs/{job_key}/review"
    if form.one("alone"):
        onward = frame.address(place, row=row)
    else:
        onward = frame.address(place, outcome=form.one("outcome"), after=exact(form, "after"), last=row)
    return frame.onward(onward, told(decided, row, verdict, entry))


def exact(form: Form, name: str) -> str | None:
    """Return a field as it is: the ids of entries may begin with a space. A browser sends each end of a line as two
    characters."""
    given = form.every(name)
    return given[-1].replace("\r\n", "\n") if given else None


def told(decided: Decided, row: str, verdict: str, entry: str | None) -> str:
    words = {
        "accept": f"{entry} is accepted for row {row}.",
        "reject": f"{entry} is rejected for row {row}.",
        "none": f"No candidate is right for row {row}.",
        "open": f"Nothing is decided about row {row}.",
    }[verdict]
    before = "" if decided.changed else " That had been so before."
    return f"{words}{before} Its outcome is: {decided.outcome}."


@router.post("/jobs/{job_key}/review/apply")
async def apply(job_key: JobKey, door: TheDoor, sent: Sent) -> Response:
    changed = await run_in_threadpool(deciding.apply, door.pool, job_key, sent.caller.actor)
    return frame.onward(f"/console/jobs/{job_key}/review", f"{several(changed, 'row')} changed.")


@router.get("/jobs/{job_key}/review/thresholds")
async def show_thresholds(
    job_key: JobKey, request: Request, door: TheDoor, caller: Viewer, precision: float = PRECISION
) -> Response:
    """Show which thresholds agree with the decisions. This has a page of its own, because it counts all rows of the
    job."""
    seen = await seen_now(request, job_key, caller)
    proposal = await run_in_threadpool(thresholds.propose, door.pool, job_key, precision, caller.actor.sees)
    return frame.page(
        request,
        caller,
        "thresholds.html",
        tab="review",
        proposal=proposal,
        precision=precision,
        least=thresholds.LEAST,
        **around(door, seen, caller),
    )
