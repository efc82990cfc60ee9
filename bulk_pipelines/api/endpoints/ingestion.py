"""Dropped files: having the sources looked at now."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.owners.callers import Administrator
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.dropping import doors
from bulk_pipelines.drops import scan
from bulk_pipelines.drops.scan import Scanned
from bulk_pipelines.engine.jobs import audit

router = APIRouter(prefix="/api/ingestion", tags=["drops"])


class Source(BaseModel):
    """What a look at one source found and did."""

    source: Annotated[str, Field(examples=["partner"])]
    seen: Annotated[int, Field(description="Files that lie there.")]
    taken: Annotated[int, Field(description="Files that were complete, and are being imported.")]
    jobs: Annotated[list[str], Field(description="The imports of these files.", examples=[["J20260110_000777"]])]
    putAway: Annotated[int, Field(description="Files that were put away, because their imports are over.")]
    skipped: Annotated[str | None, Field(description="Why the source was not looked at.")]
    message: Annotated[str, Field(description="All of this, for people.")]


class Scan(BaseModel):
    sources: list[Source]


@router.post("/scan", summary="Look at the sources of dropped files now")
def scan_sources(
    door: TheDoor,
    caller: Administrator,
    source: Annotated[str | None, Query(description="Only this source.", max_length=200)] = None,
) -> Scan:
    """Looks at the sources of dropped files, as the sensors do all the time. It takes files that are complete, and puts
    files away whose imports are over. A source that somebody else is looking at is skipped."""
    where = doors()
    found = scan.configured(door.settings, list(where.references), source)
    with transaction(door.pool) as connection:
        audit.note_other(connection, caller.actor, "scan", caller.actor.name, source=source)
    scanned = scan.scan(door.pool, found, door.settings, where, scan.SECONDS)
    return Scan(sources=[told(each) for each in scanned])


def told(scanned: Scanned) -> Source:
    looked = scanned.looked
    return Source(
        source=looked.source,
        seen=looked.seen,
        taken=looked.taken,
        jobs=list(looked.jobs),
        putAway=scanned.cleared,
        skipped=looked.skipped,
        message=str(scanned),
    )
