"""What Prometheus is told: numbers that are those of the database, whoever worked and whoever is asked."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.api.metrics import catalogue, looks
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.measures import recording
from bulk_pipelines.engine.measures.catalogue import FLUSH_ITEMS, ITEMS
from bulk_pipelines.engine.measures.recording import Measures
from bulk_pipelines.engine.outcomes import Bury
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.engine_jobs import running
from bulk_pipelines_tests.scenes.metrics import fresh, mixed, value, worked
from bulk_pipelines_tests.scenes.waiting import until


def test_outcomes_are_counted_as_the_job_has_them(engine: Engine) -> None:
    job = worked(engine, engine_jobs.kind(mixed, retry=RetryPolicy(not_found_attempts=1)), 500)
    found = fresh(engine)
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


def test_what_waits_is_looked_up(engine: Engine) -> None:
    job = running(engine, 30)
    engine_jobs.claimed(engine, job, 10)
    with transaction(engine) as connection:
        connection.execute(
            "UPDATE job_item SET updated_at = now() - interval '1 hour' WHERE job_id = %s AND lease_until IS NULL",
            [job.job_id],
        )
    found = fresh(engine)
    assert value(found, "bulk_jobs", kind="work", state="running") == 1
    assert value(found, "bulk_queue_items", kind="work", state="pending") == 20
    assert value(found, "bulk_queue_items", kind="work", state="running") == 10
    assert (value(found, "bulk_queue_oldest_seconds", kind="work") or 0) >= 3_600
    assert value(found, "bulk_workers") == 1
    assert value(found, "bulk_leases", state="held") == 10
    with transaction(engine) as connection:
        engine_jobs.run_out(connection, [row.item_id for row in engine_jobs.rows(engine, job).values()])
    assert value(fresh(engine), "bulk_leases", state="expired") == 10


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
    found = {name: each for (name, _), each in fresh(engine).items() if name.endswith(("_sum", "_count"))}
    assert found["bulk_flush_items_count"] == 2 * 20 * len(values)
    assert found["bulk_flush_items_sum"] == 2 * 20 * sum(values)
    every = fresh(engine)
    for bound in FLUSH_ITEMS.bounds:
        expected = 40 * sum(each <= bound for each in values)
        assert value(every, "bulk_flush_items_bucket", kind="work", le=str(float(bound))) == expected
    assert value(every, "bulk_items_total", kind="work", outcome="succeeded") == 120


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
    assert value(fresh(engine), "bulk_items_total", kind="work", outcome="succeeded") == 3


def test_other_buckets_begin_a_histogram_anew(engine: Engine) -> None:
    own = Measures(engine)
    own.observe(FLUSH_ITEMS, 5, "work")
    own.write()
    with transaction(engine) as connection:
        connection.execute("UPDATE measure SET buckets = '{1,2,3}'")
    assert value(fresh(engine), "bulk_flush_items_count", kind="work") is None
    own.observe(FLUSH_ITEMS, 7, "work")
    own.write()
    assert value(fresh(engine), "bulk_flush_items_sum", kind="work") == 7


def test_jobs_that_fail_fast_are_counted_as_ended(engine: Engine) -> None:
    """A job that fails fast ends within the statement that settles its items."""
    job = worked(engine, engine_jobs.kind(lambda lease, tools: Bury("no"), fail_fast=True), 5)
    assert job.status == "FAILED"
    assert value(fresh(engine), "bulk_jobs_ended_total", kind="work", state="failed") == 1
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
