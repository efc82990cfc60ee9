"""Resumable uploads: how much has arrived, more of the file, and giving the upload up."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool

from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.imports import resumption
from bulk_pipelines.api.imports.answers import ImportWithErrors
from bulk_pipelines.api.owners.callers import Writer
from bulk_pipelines.api.preferences import Prefer
from bulk_pipelines.imports.sent import clearing

router = APIRouter(prefix="/v1/uploads", tags=["imports"])

UploadId = Annotated[str, Path(description="From `Location` of the request that began the upload.", max_length=100)]
PARTIAL = {
    "requestBody": {
        "required": True,
        "description": "The bytes from `Upload-Offset` on.",
        "content": {resumption.PARTIAL: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.head("/{upload_id}", summary="How far an upload is", status_code=204)
async def look_at_upload(upload_id: UploadId, door: TheDoor, caller: Writer) -> Response:
    """Tells where to go on (`Upload-Offset`). From now on nothing is added that an earlier request still sends."""
    upload = await run_in_threadpool(resumption.taken_over, door, upload_id, caller.actor.sees)
    return Response(status_code=204, headers=resumption.state(upload) | resumption.limits(door))


@router.patch(
    "/{upload_id}",
    summary="Go on with an upload",
    status_code=202,
    response_model=ImportWithErrors,
    responses={
        200: {"model": ImportWithErrors, "description": "The upload was over before."},
        204: {"description": "What was sent is added; the upload is not over."},
    },
    openapi_extra=PARTIAL,
)
async def append_to_upload(
    upload_id: UploadId, request: Request, door: TheDoor, caller: Writer, prefer: Prefer = None
) -> Response:
    """Appends to an upload, at `Upload-Offset`. With `Upload-Complete: ?1` this is its end: the import is submitted,
    and answered as if the whole file had come at once."""
    return await resumption.append(request, door, upload_id, caller, prefer)


@router.delete("/{upload_id}", summary="Give an upload up", status_code=204)
def give_up_upload(upload_id: UploadId, door: TheDoor, caller: Writer) -> Response:
    """Removes what has arrived. An upload that is over cannot be given up: cancel its import."""
    upload = resumption.taken_over(door, upload_id, caller.actor.sees)
    if upload.submitted or not clearing.discard(door.pool, door.settings, upload):
        raise resumption.completed()
    return Response(status_code=204)
