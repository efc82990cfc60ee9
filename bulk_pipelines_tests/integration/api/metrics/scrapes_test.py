"""Scrapes: many at once, without a part of the database or all of it, and where they are answered."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine

from bulk_pipelines.api.metrics import catalogue
from bulk_pipelines.api.metrics.scraping import Scraper
from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.api.serving.application import routers
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.measures.catalogue import Form
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.metrics import Found, fresh, mixed, named, value, worked
from bulk_pipelines_tests.scenes.waiting import until


def scraped(api: Api) -> Found:
    answer = api.client("ada").get("/metrics")
    assert answer.status_code == 200, answer.text
    return named(text_string_to_metric_families(answer.text))


def test_concurrent_scrapes_are_one_look(engine: Engine) -> None:
    scraper = Scraper(engine, good_for=60)
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: list(scraper.collect()), range(64)))
    assert scraper.looks == 1
    assert len({len(each) for each in answers}) == 1


def test_a_slow_look_holds_nobody_who_knows_an_older_answer(engine: Engine) -> None:
    scraper = Scraper(engine, good_for=0, most_seconds=60)
    list(scraper.collect())
    with transaction(engine) as connection:
        connection.execute("LOCK TABLE job_item IN ACCESS EXCLUSIVE MODE")
        slow = threading.Thread(target=lambda: list(scraper.collect()))
        slow.start()
        until(lambda: engine_jobs.waiting_for_locks(engine) > 0, "a look waits")
        assert {family.name for family in scraper.collect()} >= {"bulk_database_up"}
    slow.join()
    assert scraper.looks == 2


def test_a_part_that_takes_too_long_is_left_out_and_named(engine: Engine) -> None:
    worked(engine, engine_jobs.kind(), 3)
    scraper = Scraper(engine, good_for=0, most_seconds=0.3)
    with transaction(engine) as connection:
        connection.execute("LOCK TABLE rate_limit IN ACCESS EXCLUSIVE MODE")
        found = named(scraper.collect())
    assert value(found, "bulk_metrics_part_up", part="providers") == 0
    assert value(found, "bulk_metrics_part_up", part="queue") == 1
    assert value(found, "bulk_items_total", kind="work", outcome="succeeded") == 3


def test_without_a_database_the_scrape_says_so(engine: Engine, database_url: str) -> None:
    lost = pool.connect(database_url.replace("test_", "absent_"), timeout=1)
    found = {sample.name: sample.value for family in Scraper(lost).collect() for sample in family.samples}
    assert found["bulk_database_up"] == 0


def test_dagster_is_left_out_where_it_keeps_its_runs_elsewhere(engine: Engine) -> None:
    assert value(fresh(engine), "bulk_metrics_part_up", part="dagster") == 0


def test_a_scrape_names_what_the_catalogue_has(api: Api, engine: Engine) -> None:
    worked(engine, engine_jobs.kind(mixed, retry=RetryPolicy(not_found_attempts=1)), 30)
    found = scraped(api)
    declared = {each.name for each in catalogue.ALL if each.form is not Form.HISTOGRAM} | {
        f"{each.name}_{end}"
        for each in catalogue.ALL
        if each.form is Form.HISTOGRAM
        for end in ("sum", "count", "bucket")
    }
    names = {name for name, _ in found if not name.endswith("_created")}
    assert names <= declared
    assert "bulk_http_request_duration_seconds_count" in {name for name, _ in fresh(engine)}


def test_requests_are_measured_by_the_form_of_their_path(api: Api, engine: Engine) -> None:
    client = api.client("ada")
    for job_key in ("J20260101_000001", "J20260101_000002"):
        assert client.get(f"/v1/imports/{job_key}").status_code == 404
    labels = {"method": "GET", "route": "/v1/imports/{job_id}", "status": "4xx"}
    assert value(fresh(engine), "bulk_http_request_duration_seconds_count", **labels) == 2


def test_the_path_and_openness_are_settings(engine: Engine, tmp_path: Path) -> None:
    def asked(path: str, **options: object) -> int:
        with serving_here(engine, tmp_path, **options) as api:
            return api.client(None).get(path).status_code

    with transaction(engine) as connection:
        keys.create(connection, "ada", Scope.READ, None, Actor("root", "cli"))
    assert asked("/metrics", metrics_open=True) == 200
    assert asked("/metrics") == 401
    moved = {"metrics_open": True, "metrics_path": "/internal/numbers"}
    assert (asked("/internal/numbers", **moved), asked("/metrics", **moved)) == (200, 404)
    assert asked("/metrics", metrics=False) == 404
    with pytest.raises(InvalidInput, match="BULK_METRICS_PATH"):
        routers(Settings(metrics_path="{x}"))


def test_a_client_that_goes_away_is_no_failure_of_ours(api: Api, engine: Engine) -> None:
    headers = f"Authorization: Bearer {api.text('ada', Scope.WRITE)}\r\nContent-Type: text/csv\r\nContent-Length: 1000"
    with socket.create_connection(("127.0.0.1", api.settings.api_port)) as client:
        client.sendall(f"POST /v1/imports?resource=users HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\nid,".encode())
    name = "bulk_http_request_duration_seconds_count"

    def counted(status: str) -> float | None:
        return value(fresh(engine), name, method="POST", route="/v1/imports", status=status)

    until(lambda: counted("4xx") == 1, "the request is counted", 60)
    assert counted("5xx") is None
