"""Three pages about who may do something and who does it: the keys, the audit, and the workers."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel
from starlette.responses import Response

from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.api.owners.keys import Key, Scope
from bulk_pipelines.api.pages import after_id, cursor_of
from bulk_pipelines.api.states import State
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Administrator, SentByAdmin, Viewer, Watcher
from bulk_pipelines.console.news import Common, News
from bulk_pipelines.console.pages.jobs import day
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import audit
from bulk_pipelines.engine.jobs.audit import Entry, Wanted
from bulk_pipelines.engine.jobs.overview import Working
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import addresses

router = APIRouter()
SIZE = 100
DAYS = {"": None, "30": 30, "90": 90, "365": 365}


@router.get("/workers")
async def show_workers(request: Request, door: TheDoor, caller: Viewer) -> Response:
    common: Common = request.app.state.common
    working = seen_by(caller, await run_in_threadpool(common.read_workers))
    return frame.page(request, caller, "workers.html", working=working, ui=addresses.dagster(door.settings))


@router.get("/workers/news")
async def watch_workers(request: Request, door: TheDoor, caller: Watcher) -> Response:
    """Tell who holds what, whenever that was read again for all who look."""
    common: Common = request.app.state.common
    told: list[Working] | None = None

    async def drawn(_: list[State]) -> str:
        nonlocal told
        working = await common.workers.get()
        if working is told:
            return ""
        told = working
        given = {"working": seen_by(caller, working), "ui": addresses.dagster(door.settings)}
        return frame.part(request, caller, "workers_now.html", **given)

    return News(request, caller, drawn)


def seen_by(caller: Caller, working: list[Working]) -> list[Working]:
    return [each for each in working if caller.actor.sees in (None, each.owner)]


class Chosen(BaseModel):
    """The filters of the audit, as they stand in the address."""

    job: str | None = None
    actor: str | None = None
    action: str | None = None
    owner: str | None = None
    since: str | None = None
    until: str | None = None

    @property
    def wanted(self) -> Wanted:
        since, until = day("since", self.since), day("until", self.until)
        return Wanted(self.job or None, self.actor or None, self.action or None, self.owner or None, since, until)


@router.get("/audit")
async def show_audit(
    request: Request,
    door: TheDoor,
    caller: Viewer,
    chosen: Annotated[Chosen, Query()],
    after: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    given = {name: value for name, value in chosen.model_dump().items() if value}
    wanted, before = chosen.wanted, after_id(after)

    def read() -> list[Entry]:
        with transaction(door.pool) as connection:
            return audit.page(connection, wanted, SIZE, before, caller.actor.sees)

    entries = await run_in_threadpool(read)
    more = cursor_of(entries[-1].audit_id) if len(entries) == SIZE else None
    place = frame.address("/console/audit", **given, after=more) if more else None
    return frame.page(request, caller, "audit.html", entries=entries, chosen=chosen, filtered=bool(given), next=place)


@router.get("/keys")
async def show_keys(request: Request, door: TheDoor, caller: Administrator) -> Response:
    return frame.page(request, caller, "keys.html", keys=await run_in_threadpool(every, door), made=None)


def every(door: TheDoor) -> list[Key]:
    with transaction(door.pool) as connection:
        return keys.every(connection)


@router.post("/keys")
async def make_key(request: Request, door: TheDoor, sent: SentByAdmin) -> Response:
    """Make a key, and show it this once."""
    form = sent.form
    scope, days = form.one("scope", "write"), form.one("days")
    if scope not in list(Scope):
        raise InvalidInput("scope", f"{scope[:20]!r} is none of {', '.join(Scope)}")
    if days not in DAYS:
        raise InvalidInput("days", f"{days[:20]!r} is none of {', '.join(filter(None, DAYS))}")
    expires = None if DAYS[days] is None else datetime.now(UTC) + timedelta(days=int(days))

    def make() -> tuple[Key, str]:
        with transaction(door.pool) as connection:
            return keys.create(connection, form.one("owner"), Scope(scope), expires, sent.caller.actor)

    made = await run_in_threadpool(make)
    return frame.page(request, sent.caller, "keys.html", keys=await run_in_threadpool(every, door), made=made)


@router.post("/keys/revoke")
async def revoke_key(door: TheDoor, sent: SentByAdmin) -> Response:
    def revoke() -> Key:
        with transaction(door.pool) as connection:
            return keys.revoke(connection, sent.form.one("key_id"), sent.caller.actor)

    key = await run_in_threadpool(revoke)
    return frame.onward("/console/keys", f"The key {key.key_id} of {key.owner} is revoked.")
