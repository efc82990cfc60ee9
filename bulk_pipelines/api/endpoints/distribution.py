"""Distribution: submitting inputs, and asking for the files that they make."""

from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.idempotency import Key, checked
from bulk_pipelines.api.owners.admission import Admission
from bulk_pipelines.api.owners.callers import ForOwner, Reader, Writer, acting_for
from bulk_pipelines.api.reading import read
from bulk_pipelines.api.submissions import LOOK_AGAIN, shown_at_once
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.distribution import answer, kind, submission
from bulk_pipelines.distribution.request import MOST, DistributionRequest, inputs_of
from bulk_pipelines.engine.jobs.submission import Sender, Submitted

router = APIRouter(prefix="/jobs", tags=["distribution"])

AT_ONCE = 2
"""How many requests one process takes apart at once: each may have a hundred thousand inputs."""


class Input(BaseModel):
    """One file that is to be made, or to be found."""

    indexKey: Annotated[str, Field(examples=["ABC"])]  # noqa: N815
    effectiveDate: Annotated[int, Field(examples=[20240202], description="YYYYMMDD")]  # noqa: N815
    asofindicator: Annotated[str, Field(examples=["CLS"])]


class Made(BaseModel):
    """A job that was submitted."""

    jobId: Annotated[str, Field(examples=["J20260110_000777"])]  # noqa: N815
    status: Annotated[str, Field(examples=["SUBMITTED"])]


class File(Input):
    """A file, and where it lies."""

    s3Path: Annotated[  # noqa: N815
        str, Field(examples=["s3://bucket/exports/2026/01/10/J20260110_000777/ABC_20240202_CLS.csv"])
    ]


class Answer(BaseModel):
    """How far a job is, and a page of its files."""

    jobId: Annotated[str, Field(examples=["J20260110_000777"])]  # noqa: N815
    status: Annotated[str, Field(examples=["COMPLETED"])]
    total: int
    pending: Annotated[int, Field(description="Inputs that wait, also those that wait for another try.")]
    running: int
    done: int
    failed: int
    filesGenerated: int  # noqa: N815
    filesReused: int  # noqa: N815
    errorMessage: str | None  # noqa: N815
    dataContent: list[File]  # noqa: N815
    next: Annotated[str | None, Field(description="The `after` of the next page; null when there is none.")]


BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["inputs"],
                    "properties": {
                        "inputs": {
                            "type": "array",
                            "minItems": 1,
                            "maxItems": MOST,
                            "items": Input.model_json_schema(),
                        }
                    },
                },
                "example": {"inputs": [{"indexKey": "ABC", "effectiveDate": 20240202, "asofindicator": "CLS"}]},
            }
        },
    }
}


@router.post(
    "",
    summary="Submit inputs to distribute",
    status_code=202,
    response_model=Made,
    responses={200: {"model": Made, "description": "The same request was made before."}},
    openapi_extra=BODY,
)
async def submit_distribution(
    request: Request,
    door: TheDoor,
    caller: Writer,
    idempotency_key: Key = None,
    priority: Annotated[int, Query(ge=-100, le=100, description="A higher one is launched first.")] = 0,
    owner: ForOwner = None,
) -> Response:
    """Submits a job that makes, or finds, one file for each of its inputs: up to 100,000 in one request. All of them
    are written before the answer comes, or none."""
    sender = caller.sender(acting_for(caller, owner), checked(idempotency_key), priority)
    work = partial(submit, door, sender, await request.body())
    submitted, admission = await anyio.to_thread.run_sync(work, limiter=request.app.state.submitting)
    job = submitted.job
    told = {**admission.headers, "Location": f"/jobs/{job.job_key}", "Retry-After": str(LOOK_AGAIN)}
    if not submitted.created:
        told["Idempotent-Replayed"] = "true"
    body = {"jobId": job.job_key, "status": str(job.status)}
    return JSONResponse(body, 202 if submitted.created else 200, told)


def submit(door: Door, sender: Sender, body: bytes) -> tuple[Submitted, Admission]:
    admission = Admission(door, sender.owner)

    def admit(connection: Connection, inputs: int) -> None:
        admission.admit_new(connection, sender, inputs)

    asked = DistributionRequest.parse(inputs_of(body))
    submitted = submission.submit(door.pool, kind.kind_of(door.settings), asked, sender, admit)
    return submitted, admission


@router.get("/{job_id}", summary="A distribution and its files", response_model=Answer)
async def show_distribution(
    job_id: Annotated[str, Path(description="The job's key.", max_length=100, examples=["J20260110_000777"])],
    request: Request,
    door: TheDoor,
    caller: Reader,
    size: Annotated[int, Query(alias="pageSize", description="How many files on a page.", ge=1, le=1_000)] = 1_000,
    after: Annotated[str | None, Query(description="`next` of the page before.", max_length=500)] = None,
) -> Response:
    """Shows the counts of a job and a page of its files. A file that was reused may lie in the folder of an earlier
    job."""

    def shown() -> Response:
        found = answer.of_job(door.pool, job_id, owner=caller.actor.sees, size=size, after=after)
        waiting = found["pending"] + found["retryWait"]
        return shown_at_once(Answer(**{name: found[name] for name in Answer.model_fields} | {"pending": waiting}))

    return await read(request, shown)
