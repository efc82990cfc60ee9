"""Every endpoint, asked by everybody: without a key, with a revoked, an expired and a read-only one, by another owner
and by an administrator. What has GET is asked by HEAD, too. A new endpoint without a row here fails the test."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.api.serving.application import routers
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes import databases
from bulk_pipelines_tests.scenes.api import NO_TLS, Api, bearer, serving_here
from bulk_pipelines_tests.scenes.api_exports import asked, completed
from bulk_pipelines_tests.scenes.api_imports import done, sent, users
from bulk_pipelines_tests.scenes.api_items import sent_rows, shop

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
    of_all: Made | None = None
    """Set where the path names something that belongs to nobody."""


def ended_import(api: Api) -> dict[str, str]:
    job_id = sent(api.client("ada"), b"id,email,name,role\n,nobody,Name,reader\n").json()["job_id"]
    done(api.engine, job_id)
    return {"job_id": job_id}


def waiting_import(api: Api) -> dict[str, str]:
    return {"job_id": sent(api.client("ada"), users(1)).json()["job_id"]}


def loaded_import(api: Api) -> dict[str, str]:
    found = waiting_import(api)
    with api.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM users")
    done(api.engine, found["job_id"])
    return found


def upload(api: Api) -> dict[str, str]:
    begun = sent(api.client("ada"), b"id,", {"Upload-Complete": "?0"})
    return {"upload_id": begun.headers["Location"].rpartition("/")[2]}


ADA = "4b6d5d2c-0000-4000-8000-000000000001"


def reference(api: Api) -> dict[str, str]:
    """Declare a recipe whose reference is a table that is always there."""
    folder = api.settings.home.parent / "recipes"
    folder.mkdir(exist_ok=True)
    (folder / "people.toml").write_text(
        '[recipe.people]\ntype = "match"\nvariants = [{ name = "name", query = "{name}" }]\n'
        '[recipe.people.reference]\ntable = "users"\nid = "id"\nnames = ["name", "email"]\n'
    )
    with transaction(api.engine) as connection:
        connection.execute(
            "INSERT INTO users (id, email, name, role, active) VALUES (%s, 'ada@x.org', 'Ada', 'reader', true)"
            " ON CONFLICT DO NOTHING",
            [ADA],
        )
    return {"name": "people", "kind": "entity"}


HOOK = {"address": "http://127.0.0.1:9/hook", "types": ["job.failed"]}


def subscription(api: Api) -> dict[str, str]:
    made = api.client("ada").post("/v1/subscriptions", json=HOOK)
    return {"subscription_id": made.json()["subscription_id"]}


def waiting_export(api: Api) -> dict[str, str]:
    return {"job_id": asked(api.client("ada"), resource="users").json()["job_id"]}


def written_export(api: Api) -> dict[str, str]:
    found = waiting_export(api)
    completed(api.engine, found["job_id"])
    return found


def ended_job(api: Api) -> dict[str, str]:
    found = waiting_export(api)
    api.client("ada").post(f"/v1/exports/{found['job_id']}/cancel").raise_for_status()
    return found


def distribution(api: Api) -> dict[str, str]:
    answer = api.client("ada").post("/jobs", json=INPUTS)
    assert answer.status_code == 202, answer.text
    return {"job_id": answer.json()["jobId"]}


INPUTS = {"inputs": [{"indexKey": "ABC", "effectiveDate": 20240202, "asofindicator": "CLS"}]}


def rows(api: Api) -> dict[str, str]:
    return {"job_id": sent_rows(api, "title,brand\nlamp,Acme\n").json()["jobId"]}


def paused_rows(api: Api) -> dict[str, str]:
    found = rows(api)
    assert api.client("ada").post(f"/api/jobs/{found['job_id']}/pause").status_code == 200
    return found


IMPORT = {"params": {"resource": "users"}, "content": users(1), "headers": {"Content-Type": "text/csv"}}
APPEND = {
    "content": b"email",
    "headers": {"Content-Type": "application/partial-upload", "Upload-Complete": "?0", "Upload-Offset": "3"},
}

FORM = {"data": {"queries": '{"q": {"query": "Ada"}}'}}
CONDITIONS = {"json": {"queries": [{"conditions": [{"matchType": "name", "propertyValue": "Ada"}]}]}}
RECONCILIATION: dict[str, Row] = {
    "GET /reconcile": Row(Scope.READ),
    "GET /reconcile/{name}": Row(Scope.RECONCILE, of_all=reference),
    "POST /reconcile/{name}": Row(Scope.RECONCILE, of_all=reference, ask=FORM),
    "GET /reconcile/{name}/properties": Row(Scope.RECONCILE, of_all=reference),
    "GET /reconcile/{name}/preview": Row(Scope.RECONCILE, of_all=reference, ask={"params": {"id": ADA}}),
    "GET /reconcile/{name}/suggest/{kind}": Row(Scope.RECONCILE, of_all=reference, ask={"params": {"prefix": "a"}}),
    "GET /reconcile/{name}/1.0-draft": Row(Scope.RECONCILE, of_all=reference),
    "POST /reconcile/{name}/1.0-draft/match": Row(Scope.RECONCILE, of_all=reference, ask=CONDITIONS),
    "POST /reconcile/{name}/1.0-draft/extend": Row(
        Scope.RECONCILE, of_all=reference, ask={"json": {"ids": [ADA], "properties": [{"id": "email"}]}}
    ),
    "GET /reconcile/{name}/1.0-draft/extend/propose": Row(Scope.RECONCILE, of_all=reference),
    "GET /reconcile/{name}/1.0-draft/preview": Row(Scope.RECONCILE, of_all=reference, ask={"params": {"id": ADA}}),
    "GET /reconcile/{name}/1.0-draft/suggest/{kind}": Row(
        Scope.RECONCILE, of_all=reference, ask={"params": {"prefix": "a"}}
    ),
}
"""References belong to nobody: whoever may read may ask them."""

SHOWN = {"GET /reconcile/{name}", "GET /reconcile/{name}/1.0-draft"}
"""Manifests, which are shown without a key, as their specification wants. A wrong key is refused all the same."""

ITEMS = {
    "params": {"recipe": "products"},
    "content": b"title,brand\nlamp,Acme\n",
    "headers": {"Content-Type": "text/csv"},
}

ROWS: dict[str, Row] = {
    **RECONCILIATION,
    "POST /api/jobs": Row(Scope.WRITE, 202, ask=ITEMS),
    "GET /api/jobs": Row(Scope.READ),
    "GET /api/jobs/{job_id}": Row(Scope.READ, of_owner=rows),
    "GET /api/jobs/{job_id}/items": Row(Scope.READ, of_owner=rows),
    "POST /api/jobs/{job_id}/pause": Row(Scope.WRITE, of_owner=rows),
    "POST /api/jobs/{job_id}/resume": Row(Scope.WRITE, of_owner=paused_rows),
    "POST /api/jobs/{job_id}/cancel": Row(Scope.WRITE, of_owner=rows),
    "POST /api/jobs/{job_id}/kickoff": Row(Scope.WRITE, of_owner=paused_rows),
    "POST /api/jobs/{job_id}/reprocess": Row(Scope.WRITE, of_owner=rows, ask={"json": {}}),
    "POST /api/jobs/{job_id}/export": Row(Scope.READ, of_owner=rows, ask={"params": {"format": "csv"}}),
    "GET /api/pending": Row(Scope.READ),
    "POST /api/ingestion/scan": Row(Scope.ADMIN),
    "GET /api/audit": Row(Scope.READ),
    "GET /metrics": Row(Scope.READ),
    "POST /v1/imports": Row(Scope.WRITE, 202, ask=IMPORT),
    "POST /v1/imports/preview": Row(Scope.WRITE, ask=IMPORT),
    "GET /v1/imports": Row(Scope.READ),
    "GET /v1/imports/{job_id}": Row(Scope.READ, of_owner=waiting_import),
    "GET /v1/imports/{job_id}/errors": Row(Scope.READ, of_owner=ended_import),
    "GET /v1/imports/{job_id}/records/{outcome}": Row(
        Scope.READ, of_owner=lambda api: {**ended_import(api), "outcome": "failed"}
    ),
    "POST /v1/imports/{job_id}/cancel": Row(Scope.WRITE, of_owner=waiting_import),
    "POST /v1/imports/{job_id}/replay": Row(Scope.WRITE, 202, of_owner=ended_import),
    "POST /v1/imports/{job_id}/undo": Row(Scope.WRITE, of_owner=loaded_import),
    "GET /v1/exports": Row(Scope.READ),
    "POST /v1/exports": Row(Scope.WRITE, 202, ask={"json": {"resource": "users"}}),
    "GET /v1/exports/{job_id}": Row(Scope.READ, of_owner=waiting_export),
    "GET /v1/exports/{job_id}/download": Row(Scope.READ, of_owner=written_export),
    "HEAD /v1/exports/{job_id}/download": Row(Scope.READ, of_owner=written_export),
    "POST /v1/exports/{job_id}/cancel": Row(Scope.WRITE, of_owner=waiting_export),
    "GET /v1/subscriptions": Row(Scope.READ),
    "POST /v1/subscriptions": Row(Scope.WRITE, 201, ask={"json": HOOK}),
    "GET /v1/subscriptions/{subscription_id}": Row(Scope.READ, of_owner=subscription),
    "DELETE /v1/subscriptions/{subscription_id}": Row(Scope.WRITE, 204, of_owner=subscription),
    "POST /v1/subscriptions/{subscription_id}/test": Row(Scope.WRITE, of_owner=subscription),
    "POST /jobs": Row(Scope.WRITE, 202, ask={"json": INPUTS}),
    "GET /jobs/{job_id}": Row(Scope.READ, of_owner=distribution),
    "GET /v1/jobs/{job_id}/events": Row(Scope.READ, of_owner=ended_job),
    "HEAD /v1/uploads/{upload_id}": Row(Scope.WRITE, 204, of_owner=upload),
    "PATCH /v1/uploads/{upload_id}": Row(Scope.WRITE, 204, of_owner=upload, ask=APPEND),
    "DELETE /v1/uploads/{upload_id}": Row(Scope.WRITE, 204, of_owner=upload),
}


ENDLESS = {"GET /v1/jobs/events"}
"""Streams of news have no end of their own: events_test.py asks them as everybody."""


@pytest.fixture(scope="module")
def api(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One server for all endpoints: each test makes what it asks for."""
    home = tmp_path_factory.mktemp("access") / "home"
    with databases.fresh(server, template) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BULK_HOME", str(home))
        engine = pool.connect(url, application="test")
        with serving_here(engine, home) as serving:
            yield serving
        engine.dispose()


def declared() -> set[str]:
    routes = [route for router in routers(Settings()) for route in router.routes if isinstance(route, APIRoute)]
    return {f"{method} {route.path}" for route in routes for method in route.methods or ()}


def test_every_endpoint_has_a_row() -> None:
    assert declared() == PUBLIC | ENDLESS | ROWS.keys()


HEADS = {name: f"HEAD {name.removeprefix('GET ')}" for name in ROWS if name.startswith("GET ")}
"""The requests by HEAD, by the endpoints that they are answered by; a download answers it by itself."""


@pytest.mark.parametrize("name", sorted({*ROWS, *HEADS.values()}))
def test_only_who_may_is_answered(api: Api, name: str) -> None:
    shop(api)
    row = ROWS[next((each for each, head in HEADS.items() if head == name), name)]
    method, path = name.split(" ")

    def ask(headers: dict[str, str]) -> httpx.Response:
        made = row.of_owner or row.of_all
        places = made(api) if made else {}
        options = dict(row.ask or {})
        options["headers"] = options.get("headers", {}) | headers
        return httpx.request(method, api.url + path.format(**places), timeout=30, verify=NO_TLS, **options)

    good = ask(bearer(api.text("ada", row.scope)))
    assert good.status_code == row.good, good.text
    shown = name.replace("HEAD", "GET") in SHOWN
    if name in SHOWN:
        assert ask({}).json()["authentication"]["in"] == "header"
    for headers in (
        *([] if shown else [{}]),
        bearer("bulk_0_x"),
        bearer(api.revoked("ada")),
        bearer(api.expired("ada")),
        {"Authorization": "x"},
    ):
        refused = ask(headers)
        assert refused.status_code == 401, refused.text
        assert not refused.content or refused.json()["type"] == "/problems/unauthenticated"
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    reader = ask(bearer(api.text("ada", Scope.READ)))
    assert reader.status_code == (row.good if Scope.READ.covers(row.scope) else 403), reader.text
    asker = ask(bearer(api.text("ada", Scope.RECONCILE)))
    assert asker.status_code == (row.good if row.scope is Scope.RECONCILE else 403), asker.text
    other = ask(bearer(api.text("eve", Scope.WRITE)))
    expected = 404 if row.of_owner else 403 if row.scope is Scope.ADMIN else row.good
    assert other.status_code == expected, other.text
    assert ask(bearer(api.text("root", Scope.ADMIN))).status_code == row.good


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_is_public_needs_no_key(api: Api, name: str) -> None:
    path = name.split(" ")[1].format(name="not-found")
    answer, head = api.client(None).get(path), api.client(None).head(path)
    assert answer.status_code == head.status_code == 200
    assert head.headers["Content-Length"] == str(len(answer.content))
