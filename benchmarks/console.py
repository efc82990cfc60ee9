"""The console: how quick its pages are with ten million items in the table against ten thousand, how heavy the list of
jobs is, and what open pages cost the database. A bound that is broken is an error. `BENCH_ITEMS` makes the large table
smaller."""

import os
import re
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from playwright.sync_api import Browser, Page
from sqlalchemy import Engine

from benchmarks.measure import report
from bulk_pipelines.api.owners import sessions
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.database.embedded import binaries, shared
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.browser import logged_in
from bulk_pipelines_tests.servers import chromium

SMALL, LARGE = 10_000, int(os.environ.get("BENCH_ITEMS", "10000000"))
JOBS, FULL = 200, 50
"""How many jobs there are, and how many of them share the items. So each page of items is full, also of few items."""
PAGES = 200
SECONDS = 20
ROUNDS = 15
PLACES = (
    "/console/jobs",
    "/console/jobs?state=RUNNING&kind=process",
    "/console/pending",
    "/console/pending?status=PENDING&kind=process_lookup",
    "/console/jobs/{job}",
    "/console/jobs/{job}/items?state=SUCCEEDED",
    "/console/workers",
)
"""Pages without a filter and with one; `{job}` is one of the jobs with items."""
MOST_SCALE, MOST_BYTES, MOST_QUERIES = 1.3, 150_000, 2.0
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
STATEMENT = re.compile(r"(?:statement|execute [^:]*): (.*)")
NO_QUERIES = ("BEGIN", "COMMIT", "ROLLBACK", ";", "SAVEPOINT", "RELEASE")

FILL_JOBS = """
INSERT INTO job (kind, owner, origin, params, request_hash, status, planned_at, started_at, total_items, pending_items,
    succeeded_items)
SELECT CASE n %% 2 WHEN 0 THEN 'import_users' ELSE 'process_lookup' END, 'ada', 'api',
    '{"resource": "users", "mode": "insert"}', '', 'RUNNING', now(), now(), share, share / 2, share - share / 2
FROM generate_series(1, %(jobs)s) AS n
CROSS JOIN LATERAL (SELECT CASE WHEN n <= %(full)s THEN %(each)s ELSE 0 END AS share) AS items
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
    """Make a database with so many items, and two hundred jobs."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    there = url.replace("/postgres?", f"/{name}?")
    migrations.apply(there)
    samples.furnish(there)
    engine = pool.connect(there)
    with transaction(engine) as connection:
        connection.execute(FILL_JOBS, {"each": items // FULL, "full": FULL, "jobs": JOBS})
        connection.execute(FILL_ITEMS)
    with psycopg.connect(there, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    yield engine
    engine.dispose()


def paints(browser: Browser, *sides: Api) -> list[dict[str, float]]:
    """Return the median milliseconds to the first contentful paint of each page of each side. They take turns, so that
    what else the machine does falls on all of them alike."""
    with ExitStack() as stack:
        pages: list[Page] = []
        for side in sides:
            context = logged_in(browser, side, "root", Scope.ADMIN)
            stack.callback(context.close)
            pages.append(context.new_page())
        jobs = [first_job(side) for side in sides]
        found: list[dict[str, list[float]]] = [{place: [] for place in PLACES} for _ in sides]
        for turn in range(ROUNDS):
            for place in PLACES:
                for each in range(len(sides)) if turn % 2 else reversed(range(len(sides))):
                    found[each][place].append(painted(pages[each], sides[each].url + place.format(job=jobs[each])))
    return [{place: statistics.median(times) for place, times in each.items()} for each in found]


def first_job(api: Api) -> str:
    with transaction(api.engine) as connection:
        row = connection.execute("SELECT job_key FROM job WHERE kind = 'process_lookup' ORDER BY job_id").fetchone()
    assert row is not None
    return str(row[0])


def painted(page: Page, address: str) -> float:
    page.goto(address)
    while (found := page.evaluate(PAINT)) is None:
        page.wait_for_timeout(5)
    return float(found)


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


def queries_a_second(api: Api, server: Server) -> float:
    """Return the queries that the database executes each second while two hundred pages are open, each of another
    session: pages of jobs, lists of jobs, and of who is at work. The server's log has every statement; what begins and
    ends a transaction, and asks whether a connection lives, is no query."""
    with transaction(api.engine) as connection:
        keys = [row[0] for row in connection.execute("SELECT job_key FROM job ORDER BY job_id LIMIT %s", [PAGES])]
    places = [f"/console/jobs/{key}/news" for key in keys[: PAGES - 60]]
    places += ["/console/jobs/news?" + "&".join(f"job={key}" for key in keys[:50])] * 40
    places += ["/console/workers/news"] * 20
    with ExitStack() as open_pages:
        pages = [opened(open_pages, api, place, cookie(api, f"person {at}")) for at, place in enumerate(places)]
        for page in pages:
            read_first(page)
        logged(api.engine, "all")
        began, end = time.monotonic(), server.log.stat().st_size
        time.sleep(SECONDS)
        seconds = time.monotonic() - began
        with server.log.open("rb") as log:
            log.seek(end)
            said = log.read().decode()
        logged(api.engine, "none")
    queries = [each for each in STATEMENT.findall(said) if not each.upper().startswith(NO_QUERIES)]
    return len(queries) / seconds


def cookie(api: Api, owner: str) -> str:
    """Return the cookie of a session of somebody."""
    key, _ = api.key(owner, Scope.ADMIN)
    with transaction(api.engine) as connection:
        return sessions.begin(connection, key, Actor(owner, "api"), 12)


def opened(stack: ExitStack, api: Api, place: str, session: str) -> socket.socket:
    """Open the stream of a page's news."""
    host, port = api.url.removeprefix("http://").split(":")
    wire = stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
    wire.sendall(f"GET {place} HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: bulk_session={session}\r\n\r\n".encode())
    return wire


def read_first(wire: socket.socket) -> None:
    """Read until the first parts of a page have come."""
    received = b""
    while b"event: parts" not in received:
        piece = wire.recv(1 << 16)
        if not piece:
            sys.exit(f"a page was told nothing: {received[:500]!r}")
        received += piece


def logged(engine: Engine, what: str) -> None:
    """Have the server write the statements of all sessions into its log, also of those that are open."""
    address = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET log_statement = '{what}'".encode())
        connection.execute("SELECT pg_reload_conf()")
    time.sleep(1)


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="bulk-") as name,
        shared.held(Path(name) / "pg", binaries.embedded()) as server,
    ):
        url = server.url("postgres")
        with filled(url, "small", SMALL) as small, filled(url, "large", LARGE) as large:
            sys.exit(measured(server, small, large, Path(name)))


def measured(server: Server, small: Engine, large: Engine, home: Path) -> int:
    """Measure, tell, and return whether a bound is broken."""
    with (
        serving_here(small, home / "small") as few,
        serving_here(large, home / "large") as many,
        chromium.started() as browser,
    ):
        peer, ours = paints(browser, few, many)
        for place in PLACES:
            tell(f"console-paint {place}", ours[place], peer[place], "ms")
        worst = max(PLACES, key=lambda each: ours[each] / peer[each])
        scale = tell("console-scale", ours[worst], peer[worst], "ms")
        bytes_ = tell("console-weight", weight(browser, many), MOST_BYTES, "bytes")
        queries = tell("console-live", queries_a_second(many, server), MOST_QUERIES, "queries/s")
    return int(scale > MOST_SCALE or bytes_ > 1 or queries > 1)


def tell(name: str, ours: float, peer: float, unit: str) -> float:
    report(name, ours, peer, unit)
    return ours / peer


if __name__ == "__main__":
    main()
