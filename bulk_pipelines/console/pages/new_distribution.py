"""A new distribution: its inputs are pasted, or read from a file into the same field."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners.admission import Admission
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Sent, Viewer
from bulk_pipelines.distribution import kind, pasted, submission
from bulk_pipelines.distribution.request import DistributionRequest, Input
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import BulkError

router = APIRouter()
SHOWN = 20


@router.get("/new/distribution")
async def show(request: Request, caller: Viewer) -> Response:
    return form(request, caller)


def form(
    request: Request,
    caller: Caller,
    text: str = "",
    *,
    inputs: Sequence[Input] | None = None,
    wrong: str | None = None,
    status: int = 200,
) -> Response:
    values = {"text": text, "inputs": inputs, "shown": SHOWN, "wrong": wrong}
    return frame.page(request, caller, "new_distribution.html", status, **values)


@router.post("/new/distribution")
async def start(request: Request, door: TheDoor, sent: Sent) -> Response:
    """Check the inputs, and start the distribution unless they are only to be checked."""
    text = sent.form.one("inputs")
    try:
        given = pasted.inputs_of(text)
        wanted = await run_in_threadpool(DistributionRequest.parse, given)
        if sent.form.one("act") == "check":
            return form(request, sent.caller, text, inputs=wanted.inputs)
        job = await run_in_threadpool(submitted, door, sent.caller, wanted)
    except BulkError as error:
        return form(request, sent.caller, text, wrong=str(error), status=400)
    return frame.onward(f"/console/jobs/{job.job_key}", "The distribution is submitted.")


def submitted(door: Door, caller: Caller, wanted: DistributionRequest) -> Job:
    owner = caller.actor.name
    sender, admission = caller.sender(owner), Admission(door, owner)
    return submission.submit(
        door.pool,
        kind.kind_of(door.settings),
        wanted,
        sender,
        lambda connection, items: admission.admit_new(connection, sender, items),
    ).job
