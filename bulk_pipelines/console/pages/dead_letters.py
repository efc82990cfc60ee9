"""The dead letters of all jobs: people look at them, try them again, or give them up for good."""

from collections import defaultdict
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Posted, Sent, Viewer
from bulk_pipelines.console.shown import number, several
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import cursors
from bulk_pipelines.engine.items.cursors import START, Position
from bulk_pipelines.engine.jobs import dlq, redrive
from bulk_pipelines.engine.jobs.dlq import DeadLetter, Wanted
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.errors import InvalidInput

router = APIRouter()
SIZE = 100
CLASSES = ("transient", "throttled", "permanent", "unknown", "died")
SCOPE = "dead letters"


class Chosen(BaseModel):
    """The filters, as they stand in the address."""

    job: str | None = None
    kind: str | None = None
    error_class: str | None = None

    def wanted(self, caller: Caller) -> Wanted:
        return Wanted(self.job or None, self.kind or None, self.error_class or None, owner=caller.actor.sees)


@router.get("/dlq")
async def show(
    request: Request,
    door: TheDoor,
    caller: Viewer,
    chosen: Annotated[Chosen, Query()],
    after: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    given = {name: value for name, value in chosen.model_dump().items() if value}
    letters, count, more = await run_in_threadpool(read, door, chosen.wanted(caller), after)
    return frame.page(
        request,
        caller,
        "dlq.html",
        letters=letters,
        count=count,
        chosen=chosen,
        filtered=bool(given),
        classes=CLASSES,
        next=frame.address("/console/dlq", **given, after=more) if more else None,
    )


def read(door: Door, wanted: Wanted, after: str | None) -> tuple[list[DeadLetter], int, str | None]:
    with transaction(door.pool) as connection:
        secret = cursors.cursor_secret(connection)
        position = START if after is None else cursors.decode(secret, SCOPE, after)
        letters = dlq.page(connection, wanted, SIZE, position)
        count = dlq.count(connection, wanted)
    last = letters[-1] if len(letters) == SIZE else None
    if last is None:
        return letters, count, None
    return letters, count, cursors.encode(secret, SCOPE, Position(last.buried_at, last.item_id))


@router.post("/dlq")
async def act(door: TheDoor, sent: Sent) -> Response:
    """Try the dead letters again that are ticked, or all that match the filters; or give all of these up for good."""
    form = sent.form
    chosen = Chosen(**{name: form.one(name) or None for name in Chosen.model_fields})
    wanted = chosen.wanted(sent.caller)
    match form.one("act"):
        case "redrive":
            items = await run_in_threadpool(redrive_chosen, door, sent)
            said = f"{several(items, 'dead letter')} tried again."
        case "redrive all":
            came = await run_in_threadpool(dlq.try_again, door.pool, wanted, sent.caller.actor)
            left = sum(came.left.values())
            said = f"{several(came.items, 'dead letter')} tried again." + (
                f" {number(left)} of cancelled jobs are left." if left else ""
            )
        case "discard all":
            items = await run_in_threadpool(dlq.discard, door.pool, wanted, sent.caller.actor)
            said = f"{several(items, 'dead letter')} given up for good."
        case other:
            raise InvalidInput("act", f"{other[:50]!r} cannot be done to dead letters")
    return frame.onward(frame.address("/console/dlq", **chosen.model_dump()), said)


def redrive_chosen(door: Door, sent: Posted) -> int:
    by_job: dict[str, list[int]] = defaultdict(list)
    for each in sent.form.every("item"):
        job_key, _, item_id = each.partition(":")
        if not item_id.isdigit() or len(item_id) > 18:
            raise InvalidInput("item", f"{each[:50]!r} is not the id of an item")
        by_job[job_key].append(int(item_id))
    if not by_job:
        raise InvalidInput("item", "no dead letter is chosen: tick some")
    by = sent.caller.actor
    return sum(redrive.redrive(door.pool, key, [ItemState.DLQ], ids, by=by) for key, ids in by_job.items())
