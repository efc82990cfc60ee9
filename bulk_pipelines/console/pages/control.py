"""Doing something to a job: first a page says what it will do, then a form does it."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.endpoints.items import kick_off
from bulk_pipelines.console import controls, frame
from bulk_pipelines.console.access import Sent, Viewer
from bulk_pipelines.console.pages import job as jobs
from bulk_pipelines.console.pages.job import JobKey, around, seen_now

router = APIRouter()
Name = Annotated[str, Path(max_length=50)]


@router.get("/jobs/{job_key}/control/{name}")
async def ask(job_key: JobKey, name: Name, request: Request, door: TheDoor, caller: Viewer) -> Response:
    control = controls.named(name)
    seen = await seen_now(request, job_key, caller)
    says = await run_in_threadpool(control.says, door, seen.job)
    return frame.page(
        request, caller, "control.html", tab="overview", control=control, says=says, **around(door, seen, caller)
    )


@router.post("/jobs/{job_key}/control/{name}")
async def act(job_key: JobKey, name: Name, request: Request, door: TheDoor, sent: Sent) -> Response:
    control = controls.named(name)
    found = await run_in_threadpool(jobs.found, door, job_key, sent.caller)
    if name == controls.KICK_OFF:
        await kick_off(job_key, request, door, sent.caller)
    said, made = await run_in_threadpool(control.act, door, found, sent.caller.actor)
    return frame.onward(f"/console/jobs/{made or job_key}", said)
