"""The application: its endpoints, and what stands around all of them."""

from collections.abc import Callable

from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from bulk_pipelines.api import problems
from bulk_pipelines.api.door import Door
from bulk_pipelines.api.endpoints import (
    audit,
    distribution,
    events,
    exports,
    health,
    imports,
    ingestion,
    items,
    metrics,
    pending,
    reconciliation,
    subscriptions,
    uploads,
)
from bulk_pipelines.api.files.receiving import AT_ONCE
from bulk_pipelines.api.live import Live
from bulk_pipelines.api.metrics.scraping import Scraper
from bulk_pipelines.api.owners.callers import Remembered
from bulk_pipelines.api.readiness import Readiness
from bulk_pipelines.api.serving import documentation
from bulk_pipelines.api.serving.bodies import Bounded
from bulk_pipelines.api.serving.heads import Headed
from bulk_pipelines.api.serving.origins import Crossing
from bulk_pipelines.api.serving.tracing import Traced
from bulk_pipelines.api.streams import Streams
from bulk_pipelines.engine.measures import recording
from bulk_pipelines.settings import Settings

ROUTERS = (
    distribution.router,
    imports.router,
    items.router,
    exports.router,
    uploads.router,
    events.router,
    pending.router,
    ingestion.router,
    audit.router,
    reconciliation.router,
    subscriptions.router,
    health.router,
    documentation.router,
)
"""The routers, those first that are asked most: every router that stands before the right one costs some time."""

SAYS = """
Bulk imports, exports, file distribution and long queues of small work, on PostgreSQL.

Every request bears a key, `Authorization: Bearer bulk_…`, and sees the jobs of the key's owner; administrators see all.
Errors are problem details (RFC 9457): programs go by their `type`, people read `detail` and `remedy`. Every answer has
an `X-Request-ID`, which is also kept with the jobs that come of the request.
"""


Install = Callable[[FastAPI], None]
"""Adds something to the application beside the endpoints. The console is added so, because it stands above the API,
which does not know it."""


def nothing(_: FastAPI) -> None:
    """Put nothing more into the application."""


def routers(chosen: Settings) -> list[APIRouter]:
    """Return all endpoints; where the metrics are, and whether they are there, is a setting."""
    return [*ROUTERS, *([metrics.router_at(chosen.metrics_path)] if chosen.metrics else [])]


def endpoints(door: Door, live: Live, more: Install = nothing) -> FastAPI:
    """Put the endpoints together."""
    app = FastAPI(
        title="bulk_pipelines",
        version=documentation.version(),
        description=SAYS,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        responses=documentation.PROBLEM_RESPONSES,
        separate_input_output_schemas=False,
    )
    app.state.door = door
    app.state.remembered = Remembered()
    app.state.readiness = Readiness()
    app.state.receiving = CapacityLimiter(AT_ONCE)
    app.state.reading = CapacityLimiter(door.settings.pool_size)
    app.state.live = live
    app.state.streams = Streams()
    app.state.submitting = CapacityLimiter(distribution.AT_ONCE)
    app.state.kick_offs = CapacityLimiter(door.settings.api_kick_offs)
    app.state.scraper = Scraper(door.pool)
    app.openapi = lambda: documentation.described(app)  # type: ignore[method-assign]
    problems.install(app)
    for router in routers(door.settings):
        app.include_router(router)
    more(app)
    app.add_middleware(Bounded)
    app.add_middleware(Headed)
    app.add_middleware(Crossing)
    return app


def application(door: Door, live: Live, more: Install = nothing) -> ASGIApp:
    """Return what the server runs: the endpoints, with the identity of each request around them."""
    return Traced(endpoints(door, live, more), recording.of(door.pool))
