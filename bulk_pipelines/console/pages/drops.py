"""Dropped files: the page shows whether the sources answer, and the ledger, whose failed files can be taken again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines import resources
from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.pages import after_id, cursor_of
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Administrator, SentByAdmin
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import retry, showing, sources
from bulk_pipelines.drops.commands import STATES
from bulk_pipelines.drops.showing import LastLook, LedgerEntry, Listed
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.errors import BulkError
from bulk_pipelines.storage import addresses
from bulk_pipelines.storage.access import access_of

router = APIRouter()
SIZE = 100
UNMATCHED = "UNMATCHED"
TONES = {"FAILED": "bad", "DONE": "good", "TAKEN": "live", "WATCHED": "live", "VANISHED": "warn", "DUPLICATE": "quiet"}


@dataclass(frozen=True)
class Found:
    sources: Sequence[DropSource]
    wrong: str | None
    """What is wrong with the file that names the sources."""
    looks: dict[str, LastLook]
    entries: list[LedgerEntry]
    unmatched: list[Listed]


@router.get("/drops")
async def show(
    request: Request,
    door: TheDoor,
    caller: Administrator,
    source: Annotated[str | None, Query(max_length=200)] = None,
    state: Annotated[str | None, Query(max_length=20)] = None,
    after: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    wanted = state if state and state.lower() in STATES else None
    found = await run_in_threadpool(read, door, source or None, wanted, after_id(after))
    more = cursor_of(found.entries[-1].drop_id) if len(found.entries) == SIZE else None
    return frame.page(
        request,
        caller,
        "drops.html",
        found=found,
        source=source,
        state=wanted,
        states=[each.upper() for each in STATES],
        tones=TONES,
        redacted=addresses.redacted,
        next=frame.address("/console/drops", source=source, state=wanted, after=more) if more else None,
    )


def read(door: Door, source: str | None, state: str | None, before: int | None) -> Found:
    configured, wrong = configured_sources(door)
    with transaction(door.pool) as connection:
        looks = showing.last_looks(connection)
        entries = [] if state == UNMATCHED else showing.entries(connection, source, state, SIZE, before)
        shows_unmatched = before is None and state in (None, UNMATCHED)
        unmatched = showing.page(connection, source, UNMATCHED, SIZE) if shows_unmatched else []
    return Found(configured, wrong, looks, entries, unmatched)


def configured_sources(door: Door) -> tuple[list[DropSource], str | None]:
    chosen = door.settings
    try:
        return sources.load(chosen.drops_file, [each.name for each in resources.known()], chosen.home / "inbox"), None
    except BulkError as error:
        return [], str(error)


@router.post("/drops/retry")
async def take_again(door: TheDoor, sent: SentByAdmin) -> Response:
    path, source = sent.form.one("path"), sent.form.one("source")

    def put_back() -> None:
        configured, _ = configured_sources(door)
        named = {each.name: each for each in configured}
        retry.retry(door.pool, named, access_of(door.settings), path, source or None, sent.caller.actor)

    await run_in_threadpool(put_back)
    return frame.onward("/console/drops", f"{path} is taken again by the next look.")
