"""Rows to be processed by a recipe: a file is dropped onto the page, or fetched from an address."""

from functools import partial

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.items import requests
from bulk_pipelines.api.items.requests import Address
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Sent, Viewer
from bulk_pipelines.errors import BulkError
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.recipes.declaration import Recipe

router = APIRouter()


@router.get("/new/process")
async def show(request: Request, door: TheDoor, caller: Viewer) -> Response:
    return await form(request, door, caller)


async def form(request: Request, door: Door, caller: Caller, wrong: str | None = None, address: str = "") -> Response:
    recipes: list[Recipe] = []
    try:
        found = await run_in_threadpool(library.load, door.settings)
        recipes = [found.recipes[name] for name in sorted(found.recipes)]
    except BulkError as error:
        wrong = wrong or str(error)
    values = {"recipes": recipes, "wrong": wrong, "address": address}
    return frame.page(request, caller, "new_process.html", 400 if wrong else 200, **values)


@router.post("/new/process")
async def fetch(request: Request, door: TheDoor, sent: Sent) -> Response:
    """Submit rows of a file that is fetched from an address."""
    given, caller = sent.form, sent.caller
    asked = Address.model_validate({"recipe": given.one("recipe"), "url": given.one("url")})
    submit = partial(requests.from_address, door, caller, caller.sender(caller.actor.name), asked)
    try:
        submitted, _ = await run_in_threadpool(submit)
    except BulkError as error:
        return await form(request, door, caller, str(error), asked.url)
    return frame.onward(f"/console/jobs/{submitted.job.job_key}", "The job is submitted.")
