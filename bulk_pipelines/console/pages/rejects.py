"""The rejected records of an import: the page shows what is wrong with each. People mend them there, and run them
again."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.pages import after_id, cursor_of
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import Form, Sent, Viewer
from bulk_pipelines.console.pages.job import JobKey, around, seen_now
from bulk_pipelines.console.shown import several
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files.fields import alike
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.afterwards import mending
from bulk_pipelines.imports.afterwards.mending import Record
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.request import ImportRequest
from bulk_pipelines.resources.reasons import REASONS
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of

router = APIRouter()
SIZE = 50


@router.get("/jobs/{job_key}/rejects")
async def show(
    job_key: JobKey,
    request: Request,
    door: TheDoor,
    caller: Viewer,
    after: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    seen = await seen_now(request, job_key, caller)
    records, more = await run_in_threadpool(read, door, job_key, after_id(after) or 0)
    place = f"/console/jobs/{job_key}/rejects"
    columns = list(dict.fromkeys(name for each in records for name in each.fields or ()))
    return frame.page(
        request,
        caller,
        "rejects.html",
        tab="rejects",
        records=records,
        columns=columns,
        goes={name: column_of(name, seen.job) for name in columns},
        next=frame.address(place, after=cursor_of(records[-1].line)) if more else None,
        meanings=REASONS,
        **around(door, seen, caller),
    )


def column_of(field: str, job: Job) -> str:
    """Return the column that a field of the file goes to, because reasons name columns and not fields."""
    request = ImportRequest.from_params(job.params)
    called = {alike(name): column for name, column in request.declared.header.items()}
    told = {alike(name): column for column, name in request.reading.map}
    return (called | told).get(alike(field), field)


def read(door: Door, job_key: str, after: int) -> tuple[list[Record], bool]:
    with transaction(door.pool) as connection:
        job = submission.import_job(connection, job_key)
        records = mending.page(connection, job, after, SIZE)
        return records, bool(records) and rejects.follow(connection, job.job_id, records[-1].line)


@router.post("/jobs/{job_key}/rejects")
async def mend(job_key: JobKey, door: TheDoor, sent: Sent) -> Response:
    mended = mended_of(sent.form)
    made = await run_in_threadpool(submitted, door, job_key, mended, sent)
    return frame.onward(
        f"/console/jobs/{made.job_key}",
        f"{several(len(mended), 'mended record')} of {job_key} run again, as this import.",
    )


def submitted(door: Door, job_key: str, mended: mending.Mended, sent: Sent) -> Job:
    actor = sent.caller.actor
    with transaction(door.pool) as connection:
        job = submission.import_job(connection, job_key, actor.sees)
    place, access = landing.place(door.settings), access_of(door.settings)
    with locations.folder(place, access, "BULK_LANDING_URL") as storage:
        return mending.submit(door.pool, job, mended, storage, actor)


def mended_of(form: Form) -> dict[int, Mapping[str, str] | str]:
    """Return the records that are ticked: the fields of each by their columns, or its whole text."""
    names = form.every("column")
    found: dict[int, Mapping[str, str] | str] = {}
    for text in form.every("line"):
        if not text.isdigit() or len(text) > 15:
            raise InvalidInput("line", f"{text[:20]!r} is no line")
        whole = form.every(f"{text}.text")
        cells = {name: form.every(f"{text}.{index}") for index, name in enumerate(names)}
        # A browser sends each end of a line in a field as two characters, which `plain` makes one again.
        found[int(text)] = plain(whole[0]) if whole else {name: plain(each[0]) for name, each in cells.items() if each}
    if not found:
        raise InvalidInput("line", "no record is chosen: tick those that you have mended")
    return found


def plain(text: str) -> str:
    return text.replace("\r\n", "\n")
