"""The HTTP API: the time from sending the users file to the API until it is committed, against an import of the same
local file by the same workers; and the time of a page of a job's items behind a million others, against that of the
first page."""

import json
import subprocess
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks import measure, user_files
from benchmarks.import_scene import Scene, scene
from benchmarks.page import FILL
from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines_tests.scenes.api import process

ROWS = 1_000_000
ROUNDS = 5
WORKERS = 2
DEPTH = 1_000_000
ITEMS = 301 * 4_000
"""More than the depth, of all states in even shares."""
PAGE = 100
WALKED = 1_000
PAGE_ROUNDS = 200


def over_http(place: Scene, url: str, key: str, source: Path) -> float:
    """Return the seconds from the first byte that is sent to the commit of the last row."""
    place.empty()
    begun = time.perf_counter()
    answer = subprocess.run(
        [
            *("curl", "-fsS", "-X", "POST", "-T", source, f"{url}/v1/imports?resource=users"),
            *("-H", f"Authorization: Bearer {key}", "-H", "Content-Type: text/csv"),
        ],
        check=True,
        capture_output=True,
    )
    place.work(json.loads(answer.stdout)["job_id"], WORKERS)
    seconds = time.perf_counter() - begun
    place.check(ROWS)
    return seconds


def page(client: httpx.Client, job_key: str, after: str | None) -> tuple[float, dict[str, Any]]:
    """Return the milliseconds in which a page of all items is answered, and the page."""
    params = {"pageSize": str(PAGE)} | ({"after": after} if after else {})
    begun = time.perf_counter()
    answer = client.get(f"/api/jobs/{job_key}/items", params=params)
    milliseconds = (time.perf_counter() - begun) * 1_000
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert len(found["items"]) == PAGE
    return milliseconds, found


def pages(url: str, place: str, key: str) -> None:
    """Walk through a million items of a job, as a reader does, and then read that page and the first one in turns."""
    with pool.single(place) as connection:
        row = connection.execute(FILL.encode(), {"items": ITEMS}).fetchone()
        assert row is not None
        job_key = str(row[0])
    measure.settle_down(place)
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        after: str | None = None
        for _ in range(DEPTH // WALKED):
            params = {"pageSize": str(WALKED)} | ({"after": after} if after else {})
            after = client.get(f"/api/jobs/{job_key}/items", params=params).json()["next"]
        sides = [lambda: page(client, job_key, after)[0], lambda: page(client, job_key, None)[0]]
        deep, first = measure.in_turns(sides, PAGE_ROUNDS)
    measure.show(f"the page behind {DEPTH:,} items", deep, "ms")
    measure.show("the first page", first, "ms")
    measure.report("api-page-depth", median(deep), median(first), "ms")


def main() -> None:
    with scene() as place, process(place.url, place.folder) as (_, url):
        with transaction(place.engine) as connection:
            _, key = keys.create(connection, "bench", Scope.WRITE, None, Actor("bench", "cli"))
        source = user_files.write(place.folder / "users.csv", user_files.users(ROWS))
        sides = [partial(place.ours, source, ROWS, WORKERS), partial(over_http, place, url, key, source)]
        local, sent = measure.in_turns(sides, ROUNDS)
    measure.show("the local file", local, "s")
    measure.show("over HTTP", sent, "s")
    measure.report("api-import", median(sent), median(local), "s")
    with scene() as place, process(place.url, place.folder) as (_, url):
        with transaction(place.engine) as connection:
            _, key = keys.create(connection, "bench", Scope.READ, None, Actor("bench", "cli"))
        pages(url, place.url, key)


if __name__ == "__main__":
    main()
