"""Rows to be processed by a recipe: a file is dropped onto the page, or fetched from an address."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.items import requests
from bulk_pipelines.api.items.requests import Address
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console import file_options, frame
from bulk_pipelines.console.access import Sent, Viewer
from bulk_pipelines.engine.jobs.submission import Submitted
from bulk_pipelines.errors import BulkError
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.recipes.declaration import Recipe

router = APIRouter()


@router.get("/new/process")
async def show(request: Request, door: TheDoor, caller: Viewer) -> Response:
    return await form(request, door, caller, {})


async def form(
    request: Request, door: Door, caller: Caller, given: Mapping[str, str], wrong: str | None = None
) -> Response:
    recipes: list[Recipe] = []
    try:
        found = await run_in_threadpool(library.load, door.settings)
        recipes = [found.recipes[name] for name in sorted(found.recipes)]
    except BulkError as error:
        wrong = wrong or str(error)
    values = {"recipes": recipes, "wrong": wrong, "given": given} | file_options.of_page(caller, given)
    return frame.page(request, caller, "new_process.html", 400 if wrong else 200, **values)


@router.post("/new/process")
async def fetch(request: Request, door: TheDoor, sent: Sent) -> Response:
    """Submit rows of a file that is fetched from an address."""
    asked = {name: sent.form.one(name) for name in ("recipe", "url")}
    given, caller = file_options.given_in(sent.form), sent.caller

    def submit() -> Submitted:
        address = Address.model_validate(asked | file_options.told_in(given))
        return requests.from_address(door, caller, caller.sender(caller.actor.name), address)[0]

    try:
        submitted = await run_in_threadpool(submit)
    except BulkError as error:
        return await form(request, door, caller, asked | given, str(error))
    return frame.onward(f"/console/jobs/{submitted.job.job_key}", "The job is submitted.")
