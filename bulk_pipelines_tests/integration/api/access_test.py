"""Every endpoint, asked by everybody: without a key, with a revoked, an expired and a read-only one, by another owner
and by an administrator. A new endpoint without a row here fails the test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from bulk_pipelines.api.application import ROUTERS
from bulk_pipelines.api.keys import Scope
from bulk_pipelines_tests.scenes.api import Api, bearer

PUBLIC = {"GET /health", "GET /ready", "GET /docs", "GET /problems/{name}"}
"""What anybody may see: nothing in it belongs to anybody."""

Made = Callable[[Api], dict[str, str]]
"""Makes something that belongs to ada, and returns what the path needs to name it."""


@dataclass(frozen=True)
class Row:
    """How an endpoint is asked, what scope that needs, and what it answers its owner."""

    scope: Scope
    good: int = 200
    of_owner: Made | None = None
    """Set where the path names something that belongs to an owner: for others there is no such thing."""
    ask: dict[str, Any] | None = None


ROWS: dict[str, Row] = {
    "GET /api/audit": Row(Scope.READ),
}


def declared() -> set[str]:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return {f"{method} {route.path}" for route in routes for method in route.methods or ()}


def test_every_endpoint_has_a_row() -> None:
    assert declared() == PUBLIC | ROWS.keys()


@pytest.mark.parametrize("name", sorted(ROWS))
def test_only_who_may_is_answered(api: Api, name: str) -> None:
    row = ROWS[name]
    method, path = name.split(" ")

    def ask(headers: dict[str, str]) -> httpx.Response:
        places = row.of_owner(api) if row.of_owner else {}
        options = dict(row.ask or {})
        options["headers"] = options.get("headers", {}) | headers
        return httpx.request(method, api.url + path.format(**places), timeout=30, **options)

    good = ask(bearer(api.text("ada", row.scope)))
    assert good.status_code == row.good, good.text
    for headers in (
        {},
        bearer("bulk_0_x"),
        bearer(api.revoked("ada")),
        bearer(api.expired("ada")),
        {"Authorization": "x"},
    ):
        refused = ask(headers)
        assert refused.status_code == 401, refused.text
        assert refused.json()["type"] == "/problems/unauthenticated"
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    reader = ask(bearer(api.text("ada", Scope.READ)))
    assert reader.status_code == (row.good if row.scope is Scope.READ else 403), reader.text
    other = ask(bearer(api.text("eve", Scope.WRITE)))
    expected = 404 if row.of_owner else 403 if row.scope is Scope.ADMIN else row.good
    assert other.status_code == expected, other.text
    assert ask(bearer(api.text("root", Scope.ADMIN))).status_code == row.good


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_is_public_needs_no_key(api: Api, name: str) -> None:
    answer = api.client(None).get(name.split(" ")[1].format(name="not-found"))
    assert answer.status_code == 200
