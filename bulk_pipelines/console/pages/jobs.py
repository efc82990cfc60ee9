"""The list of jobs: filters that stay in the address, pages by key, and rows that stay fresh."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners.callers import Caller, looking_at
from bulk_pipelines.api.pages import after_id, cursor_of
from bulk_pipelines.api.states import State
from bulk_pipelines.console import frame, live
from bulk_pipelines.console.access import Viewer, Watcher
from bulk_pipelines.console.live import Seen
from bulk_pipelines.console.news import Common, News
from bulk_pipelines.console.shown import JOB_WORDS
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import request as distribution
from bulk_pipelines.engine.jobs import listing, overview
from bulk_pipelines.engine.jobs.listing import Wanted
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import kind as exports
from bulk_pipelines.imports import kind as imports
from bulk_pipelines.processing import kind as processing

router = APIRouter()
SIZE = 50
MOST_WATCHED = 200
"""How many jobs of one page are watched, at most: the newest of a longer page."""
KINDS: dict[str, tuple[str, Callable[[], Iterable[str]]]] = {
    "import": ("imports", imports.known_kinds),
    "export": ("exports", exports.known_kinds),
    "distribution": ("distributions", lambda: [distribution.KIND]),
    "process": ("processing", lambda: processing.KINDS),
}
"""The kinds of job that people tell apart, each with its word and a function that returns the engine's names. These
include the tables that were adopted since this process began."""
ORIGINS = [("api", "API and console"), ("cli", "command line"), ("sensor", "drops"), ("ui", "Dagster's UI")]


class Chosen(BaseModel):
    """The filters, as they stand in the address. An empty one filters nothing."""

    text: str | None = None
    kind: str | None = None
    state: str | None = None
    origin: str | None = None
    owner: str | None = None
    since: str | None = None
    until: str | None = None

    def wanted(self, caller: Caller) -> Wanted:
        return Wanted(
            owner=looking_at(caller, (self.owner or None) if caller.actor.admin else None),
            kinds=list(KINDS[self.kind][1]()) if self.kind in KINDS else None,
            statuses=[self.state] if self.state else None,
            origin=self.origin or None,
            text=self.text.strip() or None if self.text else None,
            since=day("since", self.since),
            until=day("until", self.until),
        )


def day(field: str, text: str | None) -> datetime | None:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC) if text else None
    except ValueError:
        raise InvalidInput(field, f"{text!r} is not a day such as 2026-01-31") from None


@router.get("/jobs")
async def show(
    request: Request,
    door: TheDoor,
    caller: Viewer,
    chosen: Annotated[Chosen, Query()],
    after: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    given = {name: value for name, value in chosen.model_dump().items() if value}
    wanted, before = chosen.wanted(caller), after_id(after)
    common: Common = request.app.state.common
    counts = (await common.unfinished.get()).counts(caller.actor.sees)
    found, speeds = await run_in_threadpool(read, door, wanted, before)
    more = cursor_of(found[-1].job.job_id) if len(found) == SIZE else None
    return frame.page(
        request,
        caller,
        "jobs.html",
        seen=found,
        speeds=speeds,
        next=frame.address("/console/jobs", **given, after=more) if more else None,
        after=after,
        chosen=chosen,
        filtered=bool(given),
        kinds=[(name, word) for name, (word, _) in KINDS.items()],
        states=[(state.value, word) for state, (word, _) in JOB_WORDS.items()],
        origins=ORIGINS,
        **counted(counts),
    )


def read(door: Door, wanted: Wanted, before: int | None) -> tuple[list[Seen], dict[int, list[int]]]:
    with transaction(door.pool) as connection:
        found = listing.page(connection, wanted, SIZE, before)
        return live.shown_of(connection, found), overview.speeds(connection, [job.job_id for job in found])


def counted(counts: Mapping[JobState, int], newer: bool = False) -> dict[str, Any]:
    words = {state: word for state, (word, _) in JOB_WORDS.items()}
    return {"counts": sorted(counts.items()), "newer": newer, "words": words, "tone": tone}


def tone(state: JobState) -> str:
    return JOB_WORDS[state][1]


@router.get("/jobs/news")
async def watch(
    request: Request,
    caller: Watcher,
    job: Annotated[list[str] | None, Query(max_length=MOST_WATCHED)] = None,
    newest: int | None = None,
) -> Response:
    """Tell how those jobs of a page get on that were not over when they were shown, how many unfinished jobs there are
    in all, and whether there are newer ones than `newest`."""
    common: Common = request.app.state.common
    sees = caller.actor.sees
    told: tuple[Counter[JobState], bool] | None = None

    async def drawn(states: list[State]) -> str:
        nonlocal told
        seen = [live.of_state(state) for state in states if sees in (None, state.owner)]
        unfinished = await common.unfinished.get()
        found = unfinished.counts(sees), newest is not None and unfinished.newest(sees) > newest
        if not seen and found == told:
            return ""
        told = found
        return frame.part(request, caller, "jobs_news.html", seen=seen, speeds={}, **counted(*found))

    return News(request, caller, drawn, frozenset(job or ()))
