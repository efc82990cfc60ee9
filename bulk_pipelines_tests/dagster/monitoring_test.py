"""The alert rules and the dashboard, asked of a real Prometheus that scrapes a real installation at work: every
expression has data."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from bulk_pipelines.api.metrics import catalogue
from bulk_pipelines.engine.measures.catalogue import Form
from bulk_pipelines_tests.scenes import installation
from bulk_pipelines_tests.scenes.api_imports import users
from bulk_pipelines_tests.scenes.installation import SLOW, Installation
from bulk_pipelines_tests.scenes.processing import SHOP, items
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers import prometheus
from bulk_pipelines_tests.servers.prometheus import SHIPPED, Prometheus
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said

COMPARISON = re.compile(r"(?<![!=~<>])(==|!=|>=|<=|>|<)(?![=~])(?=[^{}]*(?:\{|$))")
BAD = b"id,email,name,role\n,nobody,Name,reader\n,x@example.org,Name,reader\n"


def rules() -> dict[str, str]:
    text = yaml.safe_load((SHIPPED / "rules.yml").read_text())
    return {rule["alert"]: rule["expr"] for group in text["groups"] for rule in group["rules"]}


def panels() -> dict[str, str]:
    text = json.loads((SHIPPED / "dashboard.json").read_text())
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in text["panels"]
        for target in panel.get("targets", [])
    }


def known() -> set[str]:
    ends = ("_bucket", "_count", "_sum")
    names = {each.name for each in catalogue.ALL if each.form is not Form.HISTOGRAM}
    return names | {f"{each.name}{end}" for each in catalogue.ALL if each.form is Form.HISTOGRAM for end in ends}


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bbulk_[a-z_]+", expression))


@pytest.mark.parametrize("name", [*rules(), *panels()])
def test_every_expression_names_metrics_that_exist(name: str) -> None:
    expression = (rules() | panels())[name]
    assert named(expression) <= known(), named(expression) - known()
    assert named(expression) or "up{" in expression


def test_every_metric_is_shown_or_watched() -> None:
    """Whatever is measured for nobody is not worth measuring."""
    seen = set().union(*(named(each) for each in (rules() | panels()).values()))
    bases = {re.sub(r"_(bucket|count|sum)$", "", name) for name in seen}
    assert {each.name for each in catalogue.ALL} - bases == set()


def test_promtool_accepts_rules_and_configuration(tmp_path: Path) -> None:
    tool = prometheus.program("promtool")
    for command in (("check", "rules", "rules.yml"), ("check", "config", "prometheus.yml")):
        (tmp_path / "bulk.key").touch()
        done = subprocess.run([tool, *command], cwd=SHIPPED, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_explained() -> None:
    page = (SHIPPED.parent / "observing.md").read_text()
    assert [name for name in rules() if f"`{name}`" not in page] == []


def answer(call: Call) -> Any:
    word = call.params["q"].split()[0]
    if word == "throttled" and not answered:
        answered.append(word)
        return Said({}, 429, {"Retry-After": "1"})
    if word == "wrong":
        return Said({"error": "bad query"}, 400)
    return {"items": []} if word == "none" else items((word, 0.9, "1"))


answered: list[str] = []


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Installation, Prometheus]]:
    folder = tmp_path_factory.mktemp("monitoring")
    prometheus.program("prometheus")
    recipes = folder / "recipes"
    recipes.mkdir()
    with ProviderServer(answer) as shop:
        text = SHOP.format(address=shop.url, provider="", recipe="not_found_attempts = 1")
        (recipes / "shop.toml").write_text(text)
        with installation.running(BULK_RECIPES=str(recipes)) as place:
            key = place.bulk("keys", "create", "--owner", "ada", "--scope", "write").stdout.strip()
            with prometheus.scraping(f"127.0.0.1:{place.api_port}", folder / "prometheus", key) as found:
                until(found.is_up, "Prometheus scrapes the API", SLOW)
                work(place, folder, key)
                yield place, found


def work(place: Installation, folder: Path, key: str) -> None:
    """Have real jobs worked in every way: dropped, sent, exported, processed, failed; and one that waits."""
    api = httpx.Client(
        base_url=f"http://127.0.0.1:{place.api_port}", headers={"Authorization": f"Bearer {key}"}, timeout=60
    )
    inbox = place.folder / "inbox"
    inbox.mkdir(parents=True, exist_ok=True)
    (inbox / "users.csv").write_bytes(users(*range(1, 501)))
    wait = {"Content-Type": "text/csv", "Prefer": "wait=60"}
    for content in (BAD, users(1_000, 1_001)):
        assert api.post("/v1/imports", params={"resource": "users"}, content=content, headers=wait).status_code < 300
    until(lambda: place.rows("SELECT count(*) >= 500 FROM users") == [(True,)], "the dropped file is loaded", SLOW)
    done = place.bulk("export", "users", "--to", str(folder / "users.csv"))
    assert done.returncode == 0, done.stderr
    rows = folder / "rows.csv"
    rows.write_text("title,brand\n" + "".join(f"{word},Acme\n" for word in ("lamp", "none", "throttled")))
    done = place.bulk("process", str(rows), "--recipe", "products")
    assert done.returncode == 0, done.stderr
    rows.write_text("title,brand\nwrong,Acme\n")
    assert place.bulk("process", str(rows), "--recipe", "products").returncode == 1, "it leaves a dead letter"
    job = api.post("/v1/imports", params={"resource": "users"}, content=users(1), headers=wait | {"Prefer": "wait=0"})
    assert job.status_code == 202


def without_data(found: Prometheus) -> list[str]:
    """Return the expressions that Prometheus has no data for."""
    now = time.time()
    empty = []
    for name, expression in (rules() | panels()).items():
        # An alert has data only while it fires; compared by `bool`, it has data whenever it can be decided.
        asked = COMPARISON.sub(r"\1 bool", expression) if name in rules() else expression
        asked = asked.replace("$__rate_interval", "1m")
        if not found.ask("query_range", query=asked, start=now - 600, end=now, step=1)["result"]:
            empty.append(f"{name}: {asked}")
    return empty


def unseen(found: Prometheus) -> set[str]:
    """Return the metrics that Prometheus has not scraped yet."""
    return known() - set(found.ask("label/__name__/values"))


@pytest.mark.long
def test_every_expression_has_data(scene: tuple[Installation, Prometheus]) -> None:
    _, found = scene
    # What was done is in a scrape some seconds later, and a rate needs two scrapes.
    with suppress(AssertionError):
        until(lambda: not without_data(found), "every expression has data")
    assert without_data(found) == []


@pytest.mark.long
def test_no_alert_is_out_of_order_and_dagster_is_seen(scene: tuple[Installation, Prometheus]) -> None:
    _, found = scene
    states = {rule["name"]: rule["health"] for group in found.ask("rules")["groups"] for rule in group["rules"]}
    assert set(states) == set(rules())
    assert set(states.values()) == {"ok"}
    assert found.ask("query", query='bulk_metrics_part_up{part="dagster"}')["result"][0]["value"][1] == "1"
    assert found.ask("query", query="bulk_metrics_part_up == 0")["result"] == []
    with suppress(AssertionError):
        until(lambda: not unseen(found), "every metric is scraped")
    assert unseen(found) == set()


@pytest.mark.long
def test_no_series_bears_a_job_or_an_owner(scene: tuple[Installation, Prometheus]) -> None:
    _, found = scene
    for series in found.ask("series", **{"match[]": '{job="bulk"}'}):
        assert not [value for value in series.values() if re.search(r"J\d{8}_|^ada$", value)], series
