"""A new import: files are dropped onto the page and sent by resumable uploads, or are fetched from an address."""

from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.imports import submitting
from bulk_pipelines.api.imports.requests import Address
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Sent, Viewer
from bulk_pipelines.errors import BulkError
from bulk_pipelines.resources import RESOURCES
from bulk_pipelines.resources.declaration import Resource

router = APIRouter()


@dataclass(frozen=True)
class Choice:
    """A resource, and what rows can be matched by."""

    name: str
    keys: list[str]


def choice(resource: Resource) -> Choice:
    return Choice(resource.name, [key.column for key in resource.keys])


@router.get("/new/import")
async def show(request: Request, caller: Viewer) -> Response:
    return form(request, caller)


def form(request: Request, caller: Viewer, wrong: str | None = None, status: int = 200, address: str = "") -> Response:
    resources = [choice(each) for each in RESOURCES]
    values = {"resources": resources, "wrong": wrong, "address": address}
    return frame.page(request, caller, "new_import.html", status, **values)


@router.post("/new/import")
async def fetch(request: Request, door: TheDoor, sent: Sent) -> Response:
    """Submit an import of a file that is fetched from an address."""
    given = sent.form
    names = ("resource", "url", "mode", "match_on", "on_error", "validate_only")
    asked = Address.model_validate(
        {name: given.one(name) for name in names if given.one(name)} | {"url": given.one("url")}
    )
    caller = sent.caller
    submit = partial(submitting.from_address, door, caller, caller.sender(caller.actor.name), asked)
    try:
        submitted, _ = await run_in_threadpool(submit)
    except BulkError as error:
        return form(request, caller, str(error), 400, asked.url if isinstance(asked.url, str) else "")
    return frame.onward(f"/console/jobs/{submitted.job.job_key}", "The import is submitted.")
