"""A new export: somebody chooses what is wanted, sees the first rows, and starts it."""

from dataclasses import dataclass
from typing import Any

import psycopg
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines import resources
from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners.admission import Admission
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Form, Sent, Viewer
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import BulkError
from bulk_pipelines.exports import submission
from bulk_pipelines.exports.read import preview
from bulk_pipelines.exports.request import DECLARATION, Compression, ExportRequest, Format

router = APIRouter()
ROWS = 10
PATIENT = "5s"
"""The longest time that the database may look for the first rows, because few rows may meet the conditions."""


@dataclass(frozen=True)
class Preview:
    rows: list[dict[str, Any]]
    estimate: int
    whole: bool = False
    """Whether these are all rows."""
    slow: bool = False
    """Whether the rows are not there because looking for them took too long."""


@router.get("/new/export")
async def show(request: Request, door: TheDoor, caller: Viewer) -> Response:
    """Show the form as the address fills it, and the first rows once a resource is chosen."""
    given = Form({name: request.query_params.getlist(name) for name in request.query_params})
    if not given.one("resource"):
        return await form(request, caller, given)
    try:
        found = await run_in_threadpool(looked, door, given)
    except BulkError as error:
        return await form(request, caller, given, wrong=str(error), status=400)
    return await form(request, caller, given, found=found)


async def form(
    request: Request,
    caller: Caller,
    given: Form,
    *,
    found: Preview | None = None,
    wrong: str | None = None,
    status: int = 200,
) -> Response:
    known = await run_in_threadpool(resources.known)
    names = [each.name for each in known]
    chosen = next((each for each in known if each.name == given.one("resource")), known[0])
    return frame.page(
        request,
        caller,
        "new_export.html",
        status,
        names=names,
        chosen=chosen,
        given=given,
        formats=list(Format),
        compressions=list(Compression),
        found=found,
        wrong=wrong,
    )


def request_of(given: Form) -> ExportRequest:
    """Return what is wanted. The form may still have fields of a resource that was chosen before: these are ignored."""
    declared = resources.find(given.one("resource"))
    return ExportRequest.parse(
        {
            "resource": declared.name,
            **({} if declared.built_in else {DECLARATION: declared}),
            "format": given.one("format") or Format.CSV,
            "fields": [each for each in given.every("fields") if each in declared.column_names],
            "where": [line.strip() for line in given.one("where").splitlines() if line.strip()],
            "order": given.one("order"),
            "compression": given.one("compression") or Compression.NONE,
            "escape_formulas": given.one("escape_formulas") == "true",
        }
    )


def looked(door: Door, given: Form) -> Preview:
    """Return the first rows, and how many there are likely to be."""
    request = request_of(given)
    with transaction(door.pool) as connection:
        connection.execute("SET TRANSACTION READ ONLY")
        expected = preview.estimate(connection, request)
        connection.execute(f"SET LOCAL statement_timeout = '{PATIENT}'")
        try:
            with connection.transaction():
                rows = preview.first_rows(connection, request, ROWS)
                return Preview(
                    rows, max(expected, len(rows)) if len(rows) == ROWS else len(rows), whole=len(rows) < ROWS
                )
        except psycopg.errors.QueryCanceled:
            return Preview([], expected, slow=True)


@router.post("/new/export")
async def start(request: Request, door: TheDoor, sent: Sent) -> Response:
    try:
        job = await run_in_threadpool(submitted, door, sent.caller, sent.form)
    except BulkError as error:
        return await form(request, sent.caller, sent.form, wrong=str(error), status=400)
    return frame.onward(f"/console/jobs/{job.job_key}", "The export is submitted.")


def submitted(door: Door, caller: Caller, given: Form) -> Job:
    wanted = request_of(given)
    owner = caller.actor.name
    with transaction(door.pool) as connection:
        Admission(door, owner).admit(connection)
        return submission.submit(connection, wanted, caller.sender(owner)).job
