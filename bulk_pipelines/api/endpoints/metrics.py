"""The metrics, as Prometheus reads them."""

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.metrics.scraping import Scraper
from bulk_pipelines.api.owners.callers import Needs, bearer
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.errors import InvalidInput

PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")


async def scrapes(
    request: Request,
    door: TheDoor,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)] = None,
) -> None:
    """Let in whoever may read, or everybody where the operators want that."""
    if not door.settings.metrics_open:
        await Needs(Scope.READ)(request, door, credentials)


def metrics(request: Request) -> Response:
    """Answers Prometheus, in the text format or in OpenMetrics's. The numbers are those of the installation, for all
    owners together."""
    scraper: Scraper = request.app.state.scraper
    registry = CollectorRegistry(auto_describe=False)
    registry.register(scraper)
    encoder, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encoder(registry), media_type=None, headers={"Content-Type": content_type})


def router_at(path: str) -> APIRouter:
    """Return the endpoint, at the path that the settings name."""
    if not PATH.fullmatch(path):
        raise InvalidInput("BULK_METRICS_PATH", f"{path!r} is no path such as /metrics")
    router = APIRouter(tags=["health"])
    router.add_api_route(
        path,
        metrics,
        summary="The metrics",
        dependencies=[Depends(scrapes)],
        response_class=Response,
        responses={200: {"description": "All metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    return router
