"""The metrics, as Prometheus reads them."""

import re

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from bulk_pipelines.api.door import door_of
from bulk_pipelines.api.metrics.scraping import Scraper
from bulk_pipelines.api.owners.callers import Caller, Needs
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.errors import InvalidInput

PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")


class Scrapes(Needs):
    """Lets in whoever may read, or everybody where the operators want that."""

    async def __call__(self, request: Request) -> Caller | None:  # type: ignore[override]
        door = await door_of(request)
        return None if door.settings.metrics_open else await super().__call__(request)


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
        dependencies=[Depends(Scrapes(Scope.READ))],
        response_class=Response,
        responses={200: {"description": "All metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    return router
