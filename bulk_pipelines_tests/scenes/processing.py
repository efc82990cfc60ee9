"""Jobs of processing for the tests: recipes on a provider of the test's own, submitted and worked to their end."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.processing import submission, work
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.report import grid
from bulk_pipelines.processing.report.grid import GridFormat
from bulk_pipelines.processing.request import ProcessingRequest
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes.engine_jobs import Row, make_due, rows
from bulk_pipelines_tests.servers.provider_server import Call, Said

SHOP = """
[provider.shop]
address = "{address}"
contact = "tests@example.org"
private = true
answer_seconds = 5
{provider}

[recipe.products]
type = "lookup"
says = "Products at a shop"
needs = ["title"]
threshold = 0.8
margin = 0.1
floor = 0.3
{recipe}
variants = [
    {{ name = "title and brand", query = "{{title}} {{brand}}" }},
    {{ name = "title", query = "{{title}}" }},
]
columns = [
    {{ header = "Title", input = "title" }},
    {{ header = "Price", answer = "price" }},
    {{ header = "Shop's id", evidence = "id" }},
    {{ header = "Outcome", evidence = "outcome" }},
    {{ header = "Variant", evidence = "variant" }},
    {{ header = "Why", evidence = "reason" }},
]

[[recipe.products.asks]]
provider = "shop"
path = "search"
params = {{ q = "{{query}}" }}
candidates = "$.items[*]"
id = "$.id"
name = "$.name"
score = "$.score"
answer = {{ price = "$.price" }}
"""


@dataclass
class Scene:
    pool: Engine
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    recipes: Path = field(init=False)

    def __post_init__(self) -> None:
        self.recipes = self.folder / "recipes"
        self.recipes.mkdir()
        self.monkeypatch.setenv("BULK_RECIPES", str(self.recipes))
        self.monkeypatch.setenv("BULK_HOME", str(self.folder / "home"))
        (self.folder / "home").mkdir()

    def shop(self, address: str, provider: str = "", recipe: str = "") -> None:
        """Declare the shop at this address, and the recipe that looks products up there."""
        self.declare(SHOP.format(address=address, provider=provider, recipe=recipe))

    def declare(self, text: str) -> None:
        (self.recipes / "shop.toml").write_text(text)
        work.declared.cache_clear()

    def file(self, text: str | bytes, name: str = "rows.csv") -> str:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def products(self, *titles: str) -> str:
        return self.file("title,brand\n" + "".join(f"{title},Acme\n" for title in titles))

    def submitted(self, recipe: str = "products", key: str | None = None, **given: Any) -> Job:
        request = ProcessingRequest.parse(library.load(current()).recipe(recipe), **given)
        with transaction(self.pool) as connection:
            return submission.submit(connection, request, Sender("me", "cli", key)).job

    def planned(self, recipe: str = "products", **given: Any) -> Job:
        job = self.submitted(recipe, **given)
        with transaction(self.pool) as connection:
            jobs.start(connection, job.job_key)
        planning.plan(self.pool, job)
        return self.job(job.job_key)

    def worked(self, job: Job) -> Job:
        """Work the job until nothing is open; what waits for a retry is due at once."""
        for _ in range(60):
            with Worker(self.pool, KINDS, self.job(job.job_key), random=lambda: 0.0) as worker:
                drain.drain(worker, patient=False)
            if self.job(job.job_key).finished:
                break
            make_due(self.pool, job)
            with transaction(self.pool) as connection:
                connection.execute("UPDATE rate_limit SET blocked_until = NULL")
        return self.job(job.job_key)

    def done(self, recipe: str = "products", **given: Any) -> Job:
        return self.worked(self.planned(recipe, **given))

    def job(self, job_key: str) -> Job:
        with transaction(self.pool) as connection:
            return jobs.find(connection, job_key)

    def rows(self, job: Job) -> list[Row]:
        return list(rows(self.pool, job).values())

    def outcomes(self, job: Job) -> list[str]:
        """Return what the items' own results say."""
        return [(each.result or {}).get("outcome", "none") for each in self.rows(job)]

    def grid(self, job: Job) -> list[dict[str, str]]:
        data = b"".join(grid.written(self.pool, job.job_key, GridFormat.CSV))
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))

    def inputs(self, job: Job) -> list[dict[str, Any]]:
        return [each.input for each in self.rows(job)]


def items(*found: tuple[str, float | None, str]) -> dict[str, Any]:
    """Return a shop's answer: the id, score and price of each item."""
    return {
        "items": [{"id": each, "name": each.title(), "score": score, "price": price} for each, score, price in found]
    }


def lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def by_word(call: Call) -> Any:  # noqa: PLR0911 - one answer for each word
    """Answer by the word that the query begins with."""
    match call.params["q"].split()[0]:
        case "lamp":
            return items(("lamp-1", 0.97, "9.90"), ("lamp-2", 0.5, "7"))
        case "twins":
            return items(("a", 0.9, "1"), ("b", 0.88, "2"))
        case "weak":
            return items(("weak-1", 0.5, "1"))
        case "noise":
            return items(("noise-1", 0.1, "1"))
        case "gone":
            return Said({}, 404)
        case "wrong":
            return Said({"error": "bad query"}, 400)
        case "html":
            return Said(b"<html>maintenance</html>", 200, {"Content-Type": "text/html"})
        case "down":
            return Said({}, 500)
    return {"items": []}
