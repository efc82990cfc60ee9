"""The console: how quick its pages are with ten million items in the table against ten thousand, how heavy the list of
jobs is, and what open pages cost the database. `BENCH_ITEMS` makes the large table smaller."""

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
from playwright.sync_api import Browser
from sqlalchemy import Engine

from benchmarks.measure import report
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.database.embedded import binaries, shared
from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.browser import logged_in
from bulk_pipelines_tests.servers import chromium

SMALL, LARGE = 10_000, int(os.environ.get("BENCH_ITEMS", "10000000"))
JOBS = 200
PAGES = 200
SECONDS = 20
ROUNDS = 15
PLACES = (
    "/console/jobs",
    "/console/jobs?state=RUNNING&kind=process",
    "/console/pending?status=PENDING&kind=process_lookup",
)
MOST_BYTES = 150_000
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"

FILL_JOBS = """
INSERT INTO job (kind, owner, origin, params, request_hash, status, planned_at, started_at, total_items, pending_items,
    succeeded_items)
SELECT CASE n %% 2 WHEN 0 THEN 'import_users' ELSE 'process_lookup' END, 'ada', 'api',
    '{"resource": "users", "mode": "insert"}', '', 'RUNNING', now(), now(), %(each)s, %(each)s / 2,
    %(each)s - %(each)s / 2
FROM generate_series(1, %(jobs)s) AS n
"""
FILL_ITEMS = """
INSERT INTO job_item (job_id, item_key, owner, kind, status, input)
SELECT job_id, lpad(n::text, 9, '0'), owner, kind,
    (CASE WHEN n <= pending_items THEN 'PENDING' ELSE 'SUCCEEDED' END)::item_status,
    jsonb_build_object('title', 'item ' || n)
FROM job, generate_series(1, total_items) AS n
"""


@contextmanager
def filled(url: str, name: str, items: int) -> Iterator[Engine]:
    """Make a database with so many items in two hundred jobs."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    there = url.replace("/postgres?", f"/{name}?")
    migrations.apply(there)
    samples.furnish(there)
    engine = pool.connect(there)
    with transaction(engine) as connection:
        connection.execute(FILL_JOBS, {"each": items // JOBS, "jobs": JOBS})
        connection.execute(FILL_ITEMS)
    with psycopg.connect(there, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    yield engine
    engine.dispose()


def paints(browser: Browser, api: Api) -> dict[str, float]:
    """Return the median milliseconds to the first contentful paint of each page."""
    context = logged_in(browser, api, "root", Scope.ADMIN)
    page = context.new_page()
    found: dict[str, list[float]] = {place: [] for place in PLACES}
    for _ in range(ROUNDS):
        for place in PLACES:
            page.goto(api.url + place)
            while (painted := page.evaluate(PAINT)) is None:
                page.wait_for_timeout(5)
            found[place].append(painted)
    context.close()
    return {place: statistics.median(times) for place, times in found.items()}


def weight(browser: Browser, api: Api) -> int:
    """Return the bytes of the list of jobs with all that it loads, by a browser with nothing in its cache."""
    context = logged_in(browser, api, "root", Scope.ADMIN)
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(f"{api.url}/console/jobs")
    page.wait_for_timeout(1_000)
    context.close()
    return int(sum(sizes))


def queries_a_second(api: Api) -> float:
    """Return the statements that the database executes each second while two hundred pages of jobs are open."""
    with transaction(api.engine) as connection:
        keys = [row[0] for row in connection.execute("SELECT job_key FROM job ORDER BY job_id LIMIT %s", [PAGES])]
    ends = time.monotonic() + SECONDS
    headers = {"Authorization": f"Bearer {api.text('root', Scope.ADMIN)}"}

    def watch(job_key: str) -> None:
        with httpx.Client(base_url=api.url, headers=headers, timeout=60) as client:
            while time.monotonic() < ends:
                client.get(f"/console/jobs/{job_key}/live").raise_for_status()
                time.sleep(2)

    watching = [threading.Thread(target=watch, args=(key,)) for key in keys]
    for each in watching:
        each.start()
    time.sleep(4)
    began, before = time.monotonic(), executed(api.engine)
    time.sleep(SECONDS - 8)
    spent, after = time.monotonic() - began, executed(api.engine)
    for each in watching:
        each.join()
    return (after - before - 1) / spent


def executed(engine: Engine) -> int:
    """Return how many transactions the database has committed; what asks here is one of them."""
    with psycopg.connect(
        engine.url.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
    ) as connection:
        connection.execute("SELECT pg_stat_clear_snapshot()")
        row = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="bulk-") as name,
        shared.held(Path(name) / "pg", binaries.embedded()) as server,
    ):
        url = server.url("postgres")
        with (
            filled(url, "small", SMALL) as small,
            filled(url, "large", LARGE) as large,
            serving_here(small, Path(name) / "small") as few,
            serving_here(large, Path(name) / "large") as many,
            chromium.started() as browser,
        ):
            peer, ours = paints(browser, few), paints(browser, many)
            for place in PLACES:
                report(f"console-paint {place}", ours[place], peer[place], "ms")
            worst = max(PLACES, key=lambda each: ours[each] / peer[each])
            report("console-scale", ours[worst], peer[worst], "ms")
            report("console-weight", weight(browser, many), MOST_BYTES, "bytes")
            report("console-live", queries_a_second(many), 2.0, "transactions/s")


if __name__ == "__main__":
    main()
