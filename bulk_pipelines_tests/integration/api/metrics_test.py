"""What Prometheus is told: numbers that are those of the database, whoever worked and whoever is asked."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine

from bulk_pipelines.api.metrics import catalogue, looks
from bulk_pipelines.api.metrics.scraping import Scraper
from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.api.serving.application import routers
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.measures import recording
from bulk_pipelines.engine.measures.catalogue import FLUSH_ITEMS, ITEMS, Form
from bulk_pipelines.engine.measures.recording import Measures
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.engine_jobs import only, running
from bulk_pipelines_tests.scenes.waiting import until

Found = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Found:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(api: Api) -> Found:
    answer = api.client("ada").get("/metrics")
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def fresh(api: Api, engine: Engine) -> Found:
    """Scrape anew, whatever is remembered."""
    samples = Scraper(engine, good_for=0).collect()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in samples
        for sample in family.samples
    }


def value(found: Found, name: str, **labels: str) -> float | None:
    return found.get((name, tuple(sorted(labels.items()))))


def mixed(lease: Lease, tools: Tools) -> Outcome:
    number = lease.input["n"]
    if number % 10 == 0:
        return Bury("bad")
    if number % 10 == 1:
        return NotFound()
    if number % 10 == 2 and lease.attempt_count == 1:
        return RetryLater("later", after=0.0)
    return Done()


def worked(engine: Engine, kind: Kind, items: int) -> Job:
    kinds = only(kind)
    job = running(engine, items, kinds=kinds)
    with Worker(engine, kinds, job) as worker:
        drain.drain(worker)
    return engine_jobs.found(engine, job)


def test_outcomes_are_counted_as_the_job_has_them(api: Api, engine: Engine) -> None:
    job = worked(engine, engine_jobs.kind(mixed, retry=RetryPolicy(not_found_attempts=1)), 500)
    found = fresh(api, engine)
    assert value(found, "bulk_items_total", kind="work", outcome="succeeded") == job.succeeded_items == 400
    assert value(found, "bulk_items_total", kind="work", outcome="buried") == job.dlq_items == 50
    assert value(found, "bulk_items_total", kind="work", outcome="not_found") == job.not_found_items == 50
    assert value(found, "bulk_items_total", kind="work", outcome="retried") == 50
    assert value(found, "bulk_dead_letters", kind="work") == 50
    assert value(found, "bulk_item_duration_seconds_count", kind="work") == 550
    assert value(found, "bulk_flush_items_sum", kind="work") == 550
    assert value(found, "bulk_flush_items_bucket", kind="work", le="+Inf") == value(
        found, "bulk_settle_latency_seconds_count", kind="work"
    )
    assert (value(found, "bulk_database_latency_ewma_seconds", operation="settle") or 0) > 0
    assert value(found, "bulk_jobs_ended_total", kind="work", state="completed_with_errors") == 1
    assert value(found, "bulk_job_duration_seconds_count", kind="work") == 1
    assert value(found, "bulk_database_up") == 1


def test_what_waits_is_looked_up(api: Api, engine: Engine) -> None:
    job = running(engine, 30)
    engine_jobs.claimed(engine, job, 10)
    with transaction(engine) as connection:
        connection.execute(
            "UPDATE job_item SET updated_at = now() - interval '1 hour' WHERE job_id = %s AND lease_until IS NULL",
            [job.job_id],
        )
    found = fresh(api, engine)
    assert value(found, "bulk_jobs", kind="work", state="running") == 1
    assert value(found, "bulk_queue_items", kind="work", state="pending") == 20
    assert value(found, "bulk_queue_items", kind="work", state="running") == 10
    assert (value(found, "bulk_queue_oldest_seconds", kind="work") or 0) >= 3_600
    assert value(found, "bulk_workers") == 1
    assert value(found, "bulk_leases", state="held") == 10
    with transaction(engine) as connection:
        engine_jobs.run_out(connection, [row.item_id for row in engine_jobs.rows(engine, job).values()])
    assert value(fresh(api, engine), "bulk_leases", state="expired") == 10


def test_histograms_are_cumulative_and_add_up_over_processes(engine: Engine) -> None:
    """Two processes (two sets of measures) that write at the same time lose nothing of each other."""
    both = [Measures(engine) for _ in range(2)]
    values = [0.5, 1, 7, 25, 99, 100, 101, 1_000_000]

    def measure(own: Measures) -> None:
        for _ in range(20):
            for each in values:
                own.observe(FLUSH_ITEMS, each, "work")
            own.count(ITEMS, "work", "succeeded", by=3)
            own.write()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(measure, both))
    found = {name: each for (name, _), each in parsed_of(engine).items() if name.endswith(("_sum", "_count"))}
    assert found["bulk_flush_items_count"] == 2 * 20 * len(values)
    assert found["bulk_flush_items_sum"] == 2 * 20 * sum(values)
    every = parsed_of(engine)
    for bound in FLUSH_ITEMS.bounds:
        expected = 40 * sum(each <= bound for each in values)
        assert value(every, "bulk_flush_items_bucket", kind="work", le=str(float(bound))) == expected
    assert value(every, "bulk_items_total", kind="work", outcome="succeeded") == 120


def parsed_of(engine: Engine) -> Found:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in Scraper(engine, good_for=0).collect()
        for sample in family.samples
    }


def test_what_cannot_be_written_is_kept(engine: Engine) -> None:
    own = Measures(engine)
    own.count(ITEMS, "work", "succeeded", by=2)
    with transaction(engine) as connection:
        connection.execute("ALTER TABLE measure RENAME TO gone")
    own.write()
    own.count(ITEMS, "work", "succeeded")
    with transaction(engine) as connection:
        connection.execute("ALTER TABLE gone RENAME TO measure")
    own.write()
    own.write()
    assert value(parsed_of(engine), "bulk_items_total", kind="work", outcome="succeeded") == 3


def test_other_buckets_begin_a_histogram_anew(engine: Engine) -> None:
    own = Measures(engine)
    own.observe(FLUSH_ITEMS, 5, "work")
    own.write()
    with transaction(engine) as connection:
        connection.execute("UPDATE measure SET buckets = '{1,2,3}'")
    assert value(parsed_of(engine), "bulk_flush_items_count", kind="work") is None
    own.observe(FLUSH_ITEMS, 7, "work")
    own.write()
    assert value(parsed_of(engine), "bulk_flush_items_sum", kind="work") == 7


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
        found = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in scraper.collect()
            for sample in family.samples
        }
    assert value(found, "bulk_metrics_part_up", part="providers") == 0
    assert value(found, "bulk_metrics_part_up", part="queue") == 1
    assert value(found, "bulk_items_total", kind="work", outcome="succeeded") == 3


def test_without_a_database_the_scrape_says_so(engine: Engine, database_url: str) -> None:
    from bulk_pipelines.database import pool

    lost = pool.connect(database_url.replace("test_", "absent_"), timeout=1)
    found = {sample.name: sample.value for family in Scraper(lost).collect() for sample in family.samples}
    assert found["bulk_database_up"] == 0


def test_dagster_is_left_out_where_it_keeps_its_runs_elsewhere(engine: Engine) -> None:
    assert value(parsed_of(engine), "bulk_metrics_part_up", part="dagster") == 0


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
    assert "bulk_http_request_duration_seconds_count" in {name for name, _ in fresh(api, engine)}


def test_requests_are_measured_by_the_form_of_their_path(api: Api, engine: Engine) -> None:
    client = api.client("ada")
    for job_key in ("J20260101_000001", "J20260101_000002"):
        assert client.get(f"/v1/imports/{job_key}").status_code == 404
    labels = {"method": "GET", "route": "/v1/imports/{job_id}", "status": "4xx"}
    assert value(fresh(api, engine), "bulk_http_request_duration_seconds_count", **labels) == 2


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
        return value(fresh(api, engine), name, method="POST", route="/v1/imports", status=status)

    until(lambda: counted("4xx") == 1, "the request is counted", 60)
    assert counted("5xx") is None


def test_jobs_that_fail_fast_are_counted_as_ended(engine: Engine) -> None:
    """Such a job ends within the statement that settles its items."""
    job = worked(engine, engine_jobs.kind(lambda lease, tools: Bury("no"), fail_fast=True), 5)
    assert job.status == "FAILED"
    assert value(parsed_of(engine), "bulk_jobs_ended_total", kind="work", state="failed") == 1
    with transaction(engine) as connection:
        rows = connection.execute("SELECT subject, data ->> 'dead_letters' FROM event").fetchall()
    assert rows == [(job.job_key, str(job.dlq_items))]


def test_an_end_that_is_rolled_back_is_no_event(engine: Engine) -> None:
    job = running(engine, 1)
    with pytest.raises(psycopg.errors.DivisionByZero), transaction(engine) as connection:
        jobs.fail(connection, job.job_key, "no")
        connection.execute("SELECT 1 / 0")
    with transaction(engine) as connection:
        assert connection.execute("SELECT count(*) FROM event").fetchone() == (0,)


def test_measures_of_a_pool_are_one(engine: Engine) -> None:
    assert recording.of(engine) is recording.of(engine)


def test_a_query_that_takes_long_is_counted_while_it_does(api: Api, engine: Engine, database_url: str) -> None:
    assert "bulk_server_slow_queries 0.0" in api.client("ada").get("/metrics").text
    with pool.single(database_url) as connection, ThreadPoolExecutor(1) as executor:
        slow = executor.submit(connection.execute, "SELECT pg_sleep(60)")
        until(lambda: slow_now(engine) == 1, "the query runs for more than five seconds", 60)
        connection.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            slow.result(60)


def slow_now(engine: Engine) -> int:
    with transaction(engine) as connection:
        return int(next(value for metric, _, value in looks.server(connection) if metric is catalogue.SLOW))
