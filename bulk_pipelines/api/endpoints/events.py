"""News of jobs, pushed while they run."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response

from bulk_pipelines.api import states
from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.events import MEDIA_TYPE, Events
from bulk_pipelines.api.live import Listener
from bulk_pipelines.api.owners.callers import ForOwner, Reader, looking_at
from bulk_pipelines.api.states import Paces, Watched
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.engine.jobs import jobs

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

LastEvent = Annotated[
    str | None, Header(alias="Last-Event-ID", description="The id of the last event that has arrived.", max_length=100)
]
EXAMPLE = (
    'event: progress\nid: 5d0c1f6a9f\ndata: {"job_id":"J20260110_000777","kind":"import_users","status":"processing",'
    '"state":"RUNNING","items":{"total":8,"pending":3,"running":2,"succeeded":3},"rows":300000,"per_second":91000.5}\n\n'
)
EVENT = {
    "type": "object",
    "description": "Each event of the stream.",
    "properties": {
        "event": {"type": "string", "enum": ["progress", "end"]},
        "id": {"type": "string"},
        "data": {"type": "string", "description": "JSON: the state of a job."},
    },
}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `progress` and `end`, with the state of a job each.",
        "content": {MEDIA_TYPE: {"schema": EVENT, "example": EXAMPLE}},
    }
}
NOTHING_MORE: dict[int | str, dict[str, Any]] = {
    204: {"description": "The job is over, and `Last-Event-ID` says that this was told: nothing more will come."}
}


@router.get("/events", summary="News of all jobs", response_class=Response, responses=STREAM)
async def watch_jobs(
    request: Request,
    door: TheDoor,  # noqa: ARG001
    caller: Reader,
    kind: Annotated[list[str] | None, Query(description="Only jobs of these kinds: import_users, …")] = None,
    owner: ForOwner = None,
) -> Response:
    """Tells of the newest thousand open jobs and of those that ended within the last minute; then of each change and
    each end, as server-sent events. Only administrators are told of other owners' jobs."""
    listener = Listener(owner=looking_at(caller, owner), kinds=frozenset(kind or ()), by=caller.actor.name)
    return Events(request.app.state.live, listener)


@router.get("/{job_id}/events", summary="News of a job", response_class=Response, responses=STREAM | NOTHING_MORE)
def watch_job(
    job_id: Annotated[str, Path(description="The job's key.", max_length=100, examples=["J20260110_000777"])],
    request: Request,
    door: TheDoor,
    caller: Reader,
    last_event_id: LastEvent = None,
) -> Response:
    """Tells how a job gets on, until it is over, as server-sent events: its state, its counters, its rows a second and
    its last errors. A client that comes back with `Last-Event-ID` is told what has changed since."""
    with transaction(door.pool) as connection:
        jobs.find(connection, job_id, caller.actor.sees)
    now, rows = states.look(door.pool, Watched([job_id]))
    if not rows:
        raise UnknownJob(job_id)
    first = states.state_of(rows[0], Paces().pace(rows[0], now))
    if first.over and last_event_id == first.digest:
        return Response(status_code=204)
    return Events(
        request.app.state.live,
        Listener(job_id, told={job_id: last_event_id} if last_event_id else {}, by=caller.actor.name),
        first,
    )
