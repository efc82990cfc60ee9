"""Rows that are looked up over HTTP, by a recipe of the test's own."""

from collections.abc import Mapping
from typing import Any

import httpx

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.processing import work
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.processing import SHOP, items
from bulk_pipelines_tests.servers.provider_server import Call, Said

NOBODY = "http://127.0.0.1:9/"
NONE: Mapping[str, str] = {}


def shop(api: Api, address: str = NOBODY, provider: str = "", recipe: str = "") -> None:
    """Declare the shop at this address, and the recipe that looks products up there."""
    folder = api.settings.home.parent / "recipes"
    folder.mkdir(exist_ok=True)
    (folder / "shop.toml").write_text(SHOP.format(address=address, provider=provider, recipe=recipe))
    work.declared.cache_clear()


def sent_rows(
    api: Api, content: Any, headers: Mapping[str, str] = NONE, owner: str = "ada", **params: str
) -> httpx.Response:
    """Send rows as the body."""
    return api.client(owner).post(
        "/api/jobs",
        params={"recipe": "products", **params},
        content=content,
        headers={"Content-Type": "text/csv", **headers},
    )


def products(*titles: str) -> str:
    return "title,brand,sku\n" + "".join(f"{title},Acme,S-{number}\n" for number, title in enumerate(titles, 1))


def job_of(api: Api, job_key: str) -> Job:
    with transaction(api.engine) as connection:
        return jobs.find(connection, job_key)


def prices(call: Call) -> Any:
    """Find what begins with a letter, nothing for `none…`, and refuse `bad…`."""
    query = call.params["q"].split()[0]
    if query.startswith("bad"):
        return Said({}, 400)
    return items() if query.startswith("none") else items((query, 0.9, "1.50"))


def worked(api: Api, job_key: str) -> dict[str, Any]:
    """Kick the job off until it is over, as a browser does."""
    ada = api.client("ada")
    for _ in range(100):
        kicked = ada.post(f"/api/jobs/{job_key}/kickoff", params={"durationMs": 2_000}).json()
        if kicked["queue_state"] in ("DONE", "FAILED"):
            return dict(kicked)
    raise AssertionError(kicked)
