"""What is still to be done: items, whatever their jobs."""

from typing import Annotated

from fastapi import APIRouter, Query

from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.items.answers import ItemAnswer, PendingItems, item_json
from bulk_pipelines.api.items.lists import words_of
from bulk_pipelines.api.moments import Moment
from bulk_pipelines.api.owners.callers import Caller, Reader, looking_at
from bulk_pipelines.api.pages import Cursor, PageSize
from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import pages
from bulk_pipelines.engine.items.pages import Wanted
from bulk_pipelines.engine.words import item_states
from bulk_pipelines.errors import Forbidden

router = APIRouter(prefix="/api", tags=["jobs"])

ME, ALL = "me", "all"


@router.get("/pending", summary="The items of all jobs that wait or are worked")
def list_pending(
    door: TheDoor,
    caller: Reader,
    statuses: Annotated[
        list[str] | None,
        Query(
            description="Between commas: PENDING, PROCESSING, DONE, ERROR, NOT_FOUND, SKIPPED.",
            examples=[["PENDING,PROCESSING"]],
        ),
    ] = None,
    user: Annotated[
        str, Query(alias="userId", description="me; for administrators also all, or an owner.", max_length=1_000)
    ] = ME,
    job_type: Annotated[str | None, Query(alias="jobType", description="Only this kind.", max_length=200)] = None,
    job: Annotated[str | None, Query(alias="jobId", description="Only items of this job.", max_length=100)] = None,
    since: Annotated[Moment | None, Query(alias="from", description="Changed not before this time.")] = None,
    until: Annotated[Moment | None, Query(alias="to", description="Changed before this time.")] = None,
    size: PageSize = 100,
    after: Cursor = None,
) -> PendingItems:
    """Lists items, those first that have not changed for longest. Every page costs the same, whatever the number of
    items. With `BULK_PENDING_DASHBOARD` set to no, this list is not there; the list of one job's items is."""
    if not door.settings.pending_dashboard:
        raise Refusal("no-such-endpoint", "BULK_PENDING_DASHBOARD turns this list off")
    owner = owner_of(caller, user)
    states = item_states(words_of(statuses) or ["PENDING", "PROCESSING"])
    with transaction(door.pool) as connection:
        if job is None:
            wanted = Wanted(owner, job_type, since, until)
            page = pages.of_all(connection, wanted, statuses=states, size=size, after=after)
        else:
            page = pages.of_job(
                connection, job, statuses=states, size=size, after=after, owner=owner, since=since, until=until
            )
    kept = [row for row in page.items if job_type in (None, row.kind)]
    return PendingItems(items=[ItemAnswer(**item_json(row)) for row in kept], next=page.after)


def owner_of(caller: Caller, user: str) -> str | None:
    """Return the owner whose items are listed; None for those of all."""
    if user == ME:
        return caller.actor.name
    if user == ALL and not caller.actor.admin:
        raise Forbidden("only administrators see the items of all: userId=me shows yours")
    return looking_at(caller, None if user == ALL else user)
