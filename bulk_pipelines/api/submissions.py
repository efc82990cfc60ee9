"""How a submission is answered, whatever kind of job it makes."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from bulk_pipelines.api.preferences import seconds_to_wait
from bulk_pipelines.engine.jobs.jobs import Job

Status = Literal["pending", "processing", "completed", "completed_with_errors", "failed", "cancelled"]
LOOK_AGAIN = 2
"""How many seconds a client is asked to wait before it looks at a job again."""


def shown_at_once(found: BaseModel) -> Response:
    """Return an answer that is encoded here. The framework would validate it once more, in another thread."""
    return Response(found.model_dump_json(), media_type="application/json")


async def answered(
    request: Request,
    job: Job,
    shown: Callable[[], tuple[dict[str, Any], bool]],
    *,
    created: bool,
    prefer: str | None,
    headers: Mapping[str, str],
) -> Response:
    """Answer a submission: 202 and where to look, or 200 for a request that was made before. If the client prefers to
    wait, the answer comes when the job is over, or when the time is up. `shown` returns the body, and whether the job
    is over."""
    told = dict(headers)
    wait = seconds_to_wait(prefer)
    if wait is not None:
        told["Preference-Applied"] = f"wait={wait}"
        await request.app.state.live.wait(job.job_key, wait)
    body, over = await run_in_threadpool(shown)
    if not over:
        told["Retry-After"] = str(LOOK_AGAIN)
    if not created:
        told["Idempotent-Replayed"] = "true"
    return JSONResponse(jsonable_encoder(body), 202 if created and not (over and wait is not None) else 200, told)
