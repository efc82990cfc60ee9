"""Whether the API lives, and whether it can work."""

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from bulk_pipelines.api.door import TheDoor

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Check(BaseModel):
    """One thing that is needed."""

    name: Annotated[str, Field(examples=["database"])]
    ok: bool
    message: Annotated[str, Field(examples=["PostgreSQL answers"])]


class Readiness(BaseModel):
    """Everything that is needed, and what is wrong with it."""

    status: Literal["ready", "not ready"]
    checks: list[Check]


@router.get("/health", summary="Whether the process lives")
async def health() -> Health:
    """Answers as long as the process can answer at all; it looks at nothing else."""
    return Health()


@router.get("/ready", summary="Whether it can work", responses={503: {"model": Readiness}})
def ready(door: TheDoor, request: Request, response: Response) -> Readiness:
    """Looks at the database, its schema, and the storage that files are landed in, and says in words what is wrong."""
    checks = [Check(**vars(found)) for found in request.app.state.readiness.look(door)]
    fine = all(check.ok for check in checks)
    response.status_code = 200 if fine else 503
    return Readiness(status="ready" if fine else "not ready", checks=checks)
