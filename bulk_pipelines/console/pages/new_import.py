"""A new import: files are dropped onto the page and sent by resumable uploads, or are fetched from an address."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.imports import submitting, tables
from bulk_pipelines.api.imports.previewing import whole_lines
from bulk_pipelines.api.imports.requests import FIELDS, Address, options_of
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Form, Sent, Viewer, refuse_strange
from bulk_pipelines.errors import BulkError
from bulk_pipelines.imports.report.preview import Preview, preview
from bulk_pipelines.imports.request import RequestedFile
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


@router.post("/new/import/preview")
async def look(
    request: Request, door: TheDoor, caller: Viewer, name: Annotated[str, Query(max_length=1_000)] = "file"
) -> Response:
    """Show how the beginning of a file is read, before anything of it is kept."""
    refuse_strange(request, caller.session_id, Form({}))
    given = {each: request.query_params[each] for each in FIELDS if request.query_params.get(each)}
    cut = request.query_params.get("cut") == "true"
    data = await request.body()
    found = await run_in_threadpool(looked, door, caller, given, name, whole_lines(data) if cut else data)
    remedy = {each: text_of(value) for each, value in found.remedy.items()}
    return frame.part(request, caller, "preview.html", found=found, remedy=remedy, cut=cut, name=name)


def looked(door: Door, caller: Caller, given: Mapping[str, str], name: str, data: bytes) -> Preview:
    with tempfile.TemporaryDirectory(prefix="bulk-preview-") as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        file = RequestedFile(str(path), len(data), name=name)
        try:
            admin = caller.actor.admin
            options = options_of(given, tables.declare_of(door, admin=admin), admin=admin)
            return preview(door.pool, options, file, door.settings)
        except BulkError as error:
            return Preview(name, given.get("resource", ""), problem=" ".join(str(error).split()))


def text_of(value: Any) -> str:
    """Return the value of an option as a form has it."""
    if isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, Mapping):
        value = value.items()
    if not isinstance(value, str | int | float):
        return ",".join("=".join(each) if isinstance(each, tuple | list) else str(each) for each in value)
    return str(value)


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
