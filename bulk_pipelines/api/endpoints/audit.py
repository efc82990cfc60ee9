"""Who did what to which job."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.moments import Moment
from bulk_pipelines.api.owners.callers import Reader
from bulk_pipelines.api.pages import Size, after_id, cursor_of
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import audit
from bulk_pipelines.engine.jobs.audit import Wanted

router = APIRouter(prefix="/api", tags=["audit"])


class Entry(BaseModel):
    """What somebody did."""

    at: datetime
    actor: Annotated[str, Field(examples=["ada"])]
    origin: Annotated[str, Field(examples=["api"])]
    ip_address: str | None
    request_id: str | None
    action: Annotated[str, Field(examples=["cancel"])]
    job_id: Annotated[str | None, Field(examples=["J20260110_000777"])]
    kind: Annotated[str | None, Field(examples=["import_users"])]
    owner: str | None
    details: dict[str, Any]


class Entries(BaseModel):
    """A page of the audit, the newest first."""

    entries: list[Entry]
    next: Annotated[str | None, Field(description="The `after` of the next page; null on the last one.")]


@router.get("/audit", summary="Who did what")
def read_audit(
    door: TheDoor,
    caller: Reader,
    job: Annotated[str | None, Query(description="Only what was done to this job.", max_length=100)] = None,
    actor: Annotated[str | None, Query(description="Only what this user did.", max_length=1_000)] = None,
    action: Annotated[str | None, Query(description="Only this: submit, pause, cancel, …", max_length=100)] = None,
    owner: Annotated[
        str | None, Query(description="Only what was done to this owner's jobs.", max_length=1_000)
    ] = None,
    since: Annotated[Moment | None, Query(alias="from", description="Not before this time.")] = None,
    until: Annotated[Moment | None, Query(alias="to", description="Before this time.")] = None,
    size: Size = 100,
    after: Annotated[str | None, Query(description="`next` of the page before.", max_length=200)] = None,
) -> Entries:
    """Lists what was done to your jobs, and what you have done. Administrators see everything."""
    wanted = Wanted(job, actor, action, owner, since, until)
    with transaction(door.pool) as connection:
        found = audit.page(connection, wanted, size, after_id(after), caller.actor.sees)
    shown = [
        Entry(
            at=each.happened_at,
            actor=each.actor,
            origin=each.origin,
            ip_address=each.address,
            request_id=each.request_id,
            action=each.action,
            job_id=each.job_key,
            kind=each.kind,
            owner=each.owner,
            details=each.details,
        )
        for each in found
    ]
    return Entries(entries=shown, next=cursor_of(found[-1].audit_id) if len(found) == size else None)
