"""Resumable uploads over HTTP, as the IETF's draft describes them (draft-ietf-httpbis-resumable-upload). An upload is
begun by a request to /v1/imports with `Upload-Complete`, goes on at an address of its own, and its last request is
answered as the whole file at once would have been."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.files import sent
from bulk_pipelines.api.files.receiving import Body, in_a_thread
from bulk_pipelines.api.files.sent import PLAIN
from bulk_pipelines.api.imports import answers, requests, tables
from bulk_pipelines.api.imports.requests import FIELDS
from bulk_pipelines.api.items import answers as row_answers
from bulk_pipelines.api.items import requests as rows
from bulk_pipelines.api.owners.admission import Admission
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.errors import InvalidInput, NotFound
from bulk_pipelines.imports.request import RequestedFile
from bulk_pipelines.imports.sent import appending, clearing, digests, uploads
from bulk_pipelines.imports.sent.appending import ROWS
from bulk_pipelines.imports.sent.uploads import RESUMABLE_SECONDS, Upload

PARTIAL = "application/partial-upload"
NUMBER = re.compile(r"\d{1,15}")
COMPLETE = {"?1": True, "?0": False}
Answer = Callable[..., Awaitable[Response]]


def begins(request: Request) -> bool:
    """Whether the request begins a resumable upload. An `Upload-Complete` that is malformed counts as missing, as the
    draft wants it."""
    return request.headers.get("upload-complete", "").strip() in COMPLETE


def complete_of(request: Request) -> bool:
    said = request.headers.get("upload-complete", "").strip()
    if said not in COMPLETE:
        raise InvalidInput("Upload-Complete", "must say ?1 if this is the end of the file, else ?0")
    return COMPLETE[said]


def number_of(request: Request, name: str) -> int | None:
    said = request.headers.get(name, "").strip()
    return int(said) if NUMBER.fullmatch(said) else None


def content_length(request: Request) -> int | None:
    return number_of(request, "content-length")


def options_of(request: Request, door: Door, *, admin: bool) -> dict[str, Any]:
    """Return the options that an upload keeps for the import that it asks for."""
    given = {name: request.query_params[name] for name in FIELDS if name in request.query_params}
    options = requests.options_of(given, tables.declare_of(door, admin=admin), admin=admin)
    options.request((RequestedFile("checked"),))
    return {"options": options.as_json()}


async def begin(request: Request, door: Door, sender: Sender, prefer: str | None, asked: Mapping[str, Any]) -> Response:
    """Begin an upload with whatever part of the file this request sends. `asked` says what the file is sent for."""
    kind = sent.media_type(request)
    if kind not in PLAIN:
        raise Refusal(
            "unsupported-media-type", "a resumable upload sends the file as the body, with its own media type"
        )
    said = sent.coding(request) or PLAIN[kind]
    expected = digests.parsed("Repr-Digest", request.headers["repr-digest"]) if "repr-digest" in request.headers else {}
    wanted: dict[str, Any] = {
        **asked,
        "compression": said,
        "digests": expected,
        "priority": sent.priority_of(request.query_params),
    }
    sender = replace(sender, priority=wanted["priority"])
    length = length_of(request, 0)
    refuse_long(door, length)
    admission = Admission(door, sender.owner)
    await run_in_threadpool(admission.refuse_beyond, length or 0)

    def began() -> Upload | Job:
        with transaction(door.pool) as connection:
            begun = uploads.begin(
                connection,
                sender.owner,
                wanted,
                idempotency_key=sender.idempotency_key,
                name=sent.file_name(request),
                resumable=True,
                length=length,
            )
            return appending.repeated(connection, begun, wanted, length) if isinstance(begun, Job) else begun

    upload = await run_in_threadpool(began)
    if isinstance(upload, Job):
        return await answer_of(asked)(
            request, door.pool, upload, created=False, prefer=prefer, headers={"Upload-Complete": "?1"}
        )
    try:
        return await go_on(request, door, upload, sender, prefer)
    except Exception:
        # Nobody was told the address of this upload, so nobody could go on with it. It must not keep its key.
        await run_in_threadpool(clearing.discard, door.pool, door.settings, upload)
        raise


async def append(request: Request, door: Door, upload_id: str, caller: Caller, prefer: str | None) -> Response:
    """Go on with an upload. The import belongs to whoever began the upload."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != PARTIAL:
        raise Refusal("unsupported-media-type", f"Content-Type must be {PARTIAL}")
    complete = complete_of(request)
    offset = number_of(request, "upload-offset")
    if offset is None:
        raise InvalidInput("Upload-Offset", "is missing: ask for it by HEAD")
    upload = await run_in_threadpool(taken_over, door, upload_id, caller.actor.sees)
    if upload.submitted:
        return await over(request, door, upload, offset, complete, prefer)
    if offset != upload.bytes:
        raise mismatch(upload, offset)
    length = length_of(request, offset)
    refuse_long(door, length, upload)
    if length is not None and not await run_in_threadpool(length_noted, door, upload, length):
        raise Refusal(
            "inconsistent-upload-length",
            f"the upload was said to have another length than {length:,}, or has more bytes already",
            headers=state(upload),
        )
    upload = replace(upload, length=upload.length if length is None else length)
    sender = caller.sender(upload.owner, priority=upload.request["priority"])
    return await go_on(request, door, upload, sender, prefer)


async def go_on(request: Request, door: Door, upload: Upload, sender: Sender, prefer: str | None) -> Response:
    """Append the body to the upload; if that was its end, submit the import."""
    expected = (
        digests.parsed("Content-Digest", request.headers["content-digest"])
        if "content-digest" in request.headers
        else {}
    )
    pieces = digests.verified(Body(request).pieces(), expected, "Content-Digest")
    admission = Admission(door, upload.owner)
    work = partial(appending.append, door.pool, door.settings, upload, pieces, admission.count)
    upload = await in_a_thread(request, work)
    if not complete_of(request):
        first = request.method == "POST"
        if first:
            await run_in_threadpool(told, door, upload)
        return Response(
            status_code=201 if first else 204, headers=state(upload) | limits(door) | location(upload, first)
        )
    if ROWS in upload.request:
        submitted = await run_in_threadpool(rows.uploaded, door, upload, sender, admission)
    else:
        submitted = await run_in_threadpool(appending.submit, door.pool, door.settings, upload, sender, admission.admit)
    return await answer_of(upload.request)(
        request,
        door.pool,
        submitted.job,
        created=submitted.created,
        prefer=prefer,
        headers={**admission.headers, "Upload-Complete": "?1"},
    )


def answer_of(asked: Mapping[str, Any]) -> Answer:
    """Return the function that answers the submission of an upload: one for rows of a recipe, one for imports."""
    return row_answers.submitted if ROWS in asked else answers.submitted


async def over(
    request: Request, door: Door, upload: Upload, offset: int, complete: bool, prefer: str | None
) -> Response:
    """Answer a request that comes after the end of the upload: the last one, whose answer was lost, or a wrong one."""
    if not complete or offset not in (upload.bytes, upload.bytes - (content_length(request) or 0)):
        raise completed()

    def job() -> Job:
        with transaction(door.pool) as connection:
            return jobs.find(connection, upload.job_key)

    return await answer_of(upload.request)(
        request,
        door.pool,
        await run_in_threadpool(job),
        created=False,
        prefer=prefer,
        headers={"Upload-Complete": "?1"},
    )


def completed() -> Refusal:
    return Refusal("completed-upload", "the upload is complete", headers={"Upload-Complete": "?1"})


def taken_over(door: Door, upload_id: str, owner: str | None) -> Upload:
    """Take the upload over, so that nothing is added that an earlier request still sends. If the upload was submitted,
    return it as it is."""
    with transaction(door.pool) as connection:
        taken = uploads.take_over(connection, upload_id, owner)
        found = taken or uploads.find(connection, upload_id, owner)
        if not found.resumable or (taken is None and not found.submitted):
            raise NotFound(f"there is no upload {upload_id!r}, or it is over")
        return found


def told(door: Door, upload: Upload) -> None:
    with transaction(door.pool) as connection:
        uploads.tell(connection, upload)


def length_noted(door: Door, upload: Upload, length: int) -> bool:
    with transaction(door.pool) as connection:
        return uploads.set_length(connection, upload, length)


def length_of(request: Request, offset: int) -> int | None:
    """Return the length of the whole upload, if the request tells it: by a header, or because it is the end."""
    told = number_of(request, "upload-length")
    length = content_length(request)
    ends = offset + length if complete_of(request) and length is not None else None
    if told is not None and ends is not None and told != ends:
        raise Refusal(
            "inconsistent-upload-length", f"Upload-Length is {told:,}, and with this request there are {ends:,} bytes"
        )
    return told if told is not None else ends


def refuse_long(door: Door, length: int | None, upload: Upload | None = None) -> None:
    most = door.settings.landing_max_bytes
    if length is not None and length > most:
        headers = limits(door) if upload is None else state(upload) | limits(door)
        raise Refusal("too-large", f"the file has {length:,} bytes, more than {most:,}", headers=headers)


def mismatch(upload: Upload, offset: int) -> Refusal:
    return Refusal(
        "mismatching-upload-offset",
        f"{upload.bytes:,} bytes have arrived, and the request goes on at {offset:,}",
        headers=state(upload),
        **{"expected-offset": upload.bytes, "provided-offset": offset},
    )


def limits(door: Door) -> dict[str, str]:
    return {"Upload-Limit": f"max-size={door.settings.landing_max_bytes}, max-age={int(RESUMABLE_SECONDS)}"}


def location(upload: Upload, first: bool) -> dict[str, str]:
    return {"Location": f"/v1/uploads/{upload.upload_id}"} if first else {}


def state(upload: Upload) -> dict[str, str]:
    """Return the headers that tell how far an upload is."""
    length = {} if upload.length is None else {"Upload-Length": str(upload.length)}
    return {
        "Upload-Offset": str(upload.bytes),
        "Upload-Complete": "?1" if upload.submitted else "?0",
        "Cache-Control": "no-store",
        **length,
    }
