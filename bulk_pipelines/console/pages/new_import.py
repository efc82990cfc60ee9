"""A new import: files are dropped onto the page and sent by resumable uploads, or fetched from an address."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from bulk_pipelines import resources
from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.imports import submitting, tables
from bulk_pipelines.api.imports.requests import FIELDS, Address, options_of
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console import file_options, frame
from bulk_pipelines.console.access import Form, Sent, Viewer, refuse_strange
from bulk_pipelines.engine.jobs.submission import Submitted
from bulk_pipelines.errors import BulkError
from bulk_pipelines.imports.report import beginnings
from bulk_pipelines.imports.report.preview import Preview
from bulk_pipelines.resources.declaration import Resource

router = APIRouter()
OPTIONS = re.compile(r" \(--[^()]*\)")
"""The options of the command line that a message names in brackets. Pages leave them out."""


@dataclass(frozen=True)
class Choice:
    """A resource, and the keys by which its rows can be matched."""

    name: str
    keys: list[str]


def choice(resource: Resource) -> Choice:
    return Choice(resource.name, [key.name for key in resource.keys])


@router.get("/new/import")
async def show(request: Request, caller: Viewer, resource: Annotated[str, Query(max_length=200)] = "") -> Response:
    return await form(request, caller, resource, {})


async def form(
    request: Request, caller: Viewer, chosen: str, given: Mapping[str, str], wrong: str | None = None, status: int = 200
) -> Response:
    """Show the page. The form of an address has what was given."""
    known = [choice(each) for each in await run_in_threadpool(resources.known)]
    values = {"resources": known, "chosen": chosen, "wrong": wrong, "given": given}
    return frame.page(request, caller, "new_import.html", status, **values, **file_options.of_page(caller, given))


@router.post("/new/import/preview")
async def look(
    request: Request, door: TheDoor, caller: Viewer, name: Annotated[str, Query(max_length=1_000)] = "file"
) -> Response:
    """Show how the beginning of a file would be read. Nothing of it is kept."""
    refuse_strange(request, caller.session_id, Form({}))
    given = {each: request.query_params[each] for each in FIELDS if request.query_params.get(each)}
    cut = request.query_params.get("cut") == "true"
    found = await run_in_threadpool(looked, door, caller, given, name, await request.body(), cut)
    remedy = {each: file_options.in_field(each, value) for each, value in found.remedy.items()}
    known = await run_in_threadpool(resources.known)
    declared = next((each for each in known if each.name == found.resource), None)
    values = {"found": found, "declared": declared, "remedy": remedy, "cut": cut, "name": name}
    return HTMLResponse(frame.part(request, caller, "preview.html", **values))


def looked(door: Door, caller: Caller, given: Mapping[str, str], name: str, sent: bytes, cut: bool) -> Preview:
    with tempfile.TemporaryDirectory(prefix="bulk-preview-") as folder:
        path = Path(folder) / "file"
        try:
            path.write_bytes(sent)
            admin = caller.actor.admin
            options = options_of(given, tables.declare_of(door, admin=admin), admin=admin)
            found = beginnings.looked_at(door.pool, options, path, name, door.settings, cut=cut)
        except BulkError as error:
            found = Preview(name, given.get("resource", ""), problem=" ".join(str(error).split()))
    return replace(found, problem=None if found.problem is None else OPTIONS.sub("", found.problem))


@router.post("/new/import")
async def fetch(request: Request, door: TheDoor, sent: Sent) -> Response:
    """Submit an import of a file that is fetched from an address."""
    names = ("resource", "url", "mode", "match_on", "on_error", "validate_only")
    asked = {name: text for name in names if (text := sent.form.one(name))}
    given = file_options.given_in(sent.form)
    caller = sent.caller

    def submit() -> Submitted:
        told = asked | {"validate_only": "validate_only" in asked, "url": asked.get("url", "")}
        address = Address.model_validate(told | file_options.told_in(given))
        return submitting.from_address(door, caller, caller.sender(caller.actor.name), address)[0]

    try:
        submitted = await run_in_threadpool(submit)
    except BulkError as error:
        return await form(request, caller, asked.get("resource", ""), asked | given, str(error), 400)
    return frame.onward(f"/console/jobs/{submitted.job.job_key}", "The import is submitted.")
