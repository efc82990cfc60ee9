"""The HTTP API against what it stands for: an import of the same local file, `psql \\copy` to and from the same tables,
an endpoint that does nothing but ask the database, and the first page of items against one behind a million others.
`make bench-api`."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from sqlalchemy import Engine

from benchmarks import load, measure, user_files
from benchmarks.import_scene import COLUMNS, Scene, scene
from benchmarks.page import FILL
from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded import binaries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines_tests.scenes.api import process
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import free_port

ROWS = 1_000_000
ROUNDS = 5
WORKERS = 2
INPUTS = 100_000
CLIENTS = 32
LOAD_SECONDS = 5.0
FIRST_BYTE_SECONDS = 0.05
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
    answer = curl(key, "-X", "POST", "-T", source, "-H", "Content-Type: text/csv", f"{url}/v1/imports?resource=users")
    place.work(json.loads(answer)["job_id"], WORKERS)
    seconds = time.perf_counter() - begun
    place.check(ROWS)
    return seconds


def curl(key: str, *arguments: str | Path) -> str:
    command = ["curl", "-fsS", "-H", f"Authorization: Bearer {key}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def psql(url: str, command: str) -> float:
    begun = time.perf_counter()
    subprocess.run([binaries.embedded() / "psql", "-X", "-q", url, "-c", command], check=True)
    return time.perf_counter() - begun


def copied_out(place: Scene) -> float:
    file = place.folder / "psql.csv"
    seconds = psql(place.url, f"\\copy (SELECT {COLUMNS} FROM users) TO '{file}' WITH (FORMAT csv, HEADER)")
    file.unlink()
    return seconds


def streamed(place: Scene, url: str, key: str) -> float:
    file = place.folder / "api.csv"
    begun = time.perf_counter()
    curl(key, "-o", file, f"{url}/v1/exports?resource=users&format=csv")
    seconds = time.perf_counter() - begun
    with file.open("rb") as lines:
        assert sum(1 for _ in lines) == ROWS + 1
    file.unlink()
    return seconds


def first_byte(url: str, key: str) -> float:
    """Return the seconds until the first byte of a million rows comes; the others are not waited for."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    connection.request("GET", "/v1/exports?resource=users&format=csv", headers={"Authorization": f"Bearer {key}"})
    assert connection.getresponse().read(1)
    seconds = time.perf_counter() - begun
    connection.close()
    return seconds


def submitted(place: Scene, url: str, key: str, body: Path) -> float:
    """Return the seconds of one request with a hundred thousand inputs, until they are committed and answered."""
    emptied(place)
    begun = time.perf_counter()
    curl(key, "-X", "POST", "-T", body, "-H", "Content-Type: application/json", "-H", "Expect:", f"{url}/jobs")
    seconds = time.perf_counter() - begun
    with pool.single(place.url) as connection:
        assert connection.execute("SELECT count(*) FROM job_item").fetchone() == (INPUTS,)
    return seconds


def copied_in(place: Scene, source: Path) -> float:
    emptied(place)
    with pool.single(place.url) as connection:
        row = connection.execute(
            "INSERT INTO job (kind, owner, origin, request_hash) VALUES ('distribution', 'bench', 'api', '')"
            " RETURNING job_id"
        ).fetchone()
    assert row is not None
    source.write_text("".join(f"{row[0]}\t{line}" for line in lines_of_inputs()))
    return psql(place.url, f"\\copy bulk.job_item (job_id, item_key, owner, kind, input) FROM '{source}'")


def emptied(place: Scene) -> None:
    with pool.single(place.url) as connection:
        connection.execute("TRUNCATE job CASCADE")
    measure.settle_down(place.url)


def inputs() -> list[dict[str, str | int]]:
    return [
        {"indexKey": f"INDEX{number:06}", "effectiveDate": 20240202, "asofindicator": "CLS"} for number in range(INPUTS)
    ]


def lines_of_inputs() -> Iterator[str]:
    for each in inputs():
        text = json.dumps(each, separators=(",", ":"))
        yield f"{each['indexKey']}_{each['effectiveDate']}_CLS\tbench\tdistribution\t{text}\n"


@contextmanager
def bare(url: str) -> Iterator[str]:
    """Serve the least that shows a job, in a process of its own."""
    port = free_port()
    with subprocess.Popen([sys.executable, "-m", "benchmarks.bare", url, str(port)]) as running:
        try:
            until(lambda: answers(running, f"http://127.0.0.1:{port}"), "the bare endpoint answers", 60)
            yield f"http://127.0.0.1:{port}"
        finally:
            running.kill()


def answers(running: "subprocess.Popen[bytes]", url: str) -> bool:
    assert running.poll() is None
    try:
        return httpx.get(f"{url}/openapi.json").status_code == 200
    except httpx.TransportError:
        return False


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


def importing(place: Scene, url: str, key: str) -> None:
    source = user_files.write(place.folder / "users.csv", user_files.users(ROWS))
    sides = [partial(place.ours, source, ROWS, WORKERS), partial(over_http, place, url, key, source)]
    local, sent = measure.in_turns(sides, ROUNDS)
    measure.show("the local file", local, "s")
    measure.show("over HTTP", sent, "s")
    measure.report("api-import", median(sent), median(local), "s")


def exporting(place: Scene, url: str, key: str) -> None:
    """Measure exports of the users that were imported before."""
    measure.settle_down(place.url)
    copied, fetched = measure.in_turns([partial(copied_out, place), partial(streamed, place, url, key)], ROUNDS)
    first = [first_byte(url, key) for _ in range(2 * ROUNDS)]
    measure.show("psql \\copy to a file", copied, "s")
    measure.show("streamed", fetched, "s")
    measure.show("the first byte", first, "s")
    measure.report("api-export", median(fetched), median(copied), "s")
    measure.report("api-first-byte", median(first), FIRST_BYTE_SECONDS, "s")


def submitting(place: Scene, url: str, key: str) -> None:
    body, items = place.folder / "inputs.json", place.folder / "items.tsv"
    body.write_text(json.dumps({"inputs": inputs()}))
    sides = [partial(copied_in, place, items), partial(submitted, place, url, key, body)]
    by_copy, by_request = measure.in_turns(sides, ROUNDS)
    measure.show("psql \\copy of inputs", by_copy, "s")
    measure.show("one request", by_request, "s")
    measure.report("api-submit", median(by_request), median(by_copy), "s")


def showing(place: Scene, url: str, key: str) -> None:
    """Measure how many requests a second show a job with ten files, ours and the least that could."""
    emptied(place)
    headers = {"Authorization": f"Bearer {key}"}
    body = {"inputs": inputs()[:10]}
    job = httpx.post(f"{url}/jobs", json=body, headers=headers).raise_for_status().json()["jobId"]
    with pool.single(place.url) as connection:
        connection.execute(
            'UPDATE job_item SET status = \'SUCCEEDED\', result = \'{"path": "s3://b/x.csv", "reused": false}\''
        )
        connection.execute(
            "UPDATE job SET status = 'COMPLETED', pending_items = 0, succeeded_items = 10, started_at = now(),"
            ' finished_at = now(), result = \'{"filesGenerated": 10, "filesReused": 0}\''
        )
    assert len(httpx.get(f"{url}/jobs/{job}", headers=headers).json()["dataContent"]) == 10
    with bare(place.url) as other:
        sides = [
            partial(load.measured, url, f"/jobs/{job}", headers, CLIENTS, LOAD_SECONDS),
            partial(load.measured, other, f"/jobs/{job}", {}, CLIENTS, LOAD_SECONDS),
        ]
        ours, peer = measure.in_turns(sides, ROUNDS)
    measure.show("our requests", ours, "1/s")
    measure.show("bare requests", peer, "1/s")
    measure.report("api-overhead", 1 / median(ours), 1 / median(peer), "s")


def key_of(engine: Engine) -> str:
    with transaction(engine) as connection:
        return keys.create(connection, "bench", Scope.WRITE, None, Actor("bench", "cli"))[1]


def main() -> None:
    with scene() as place, process(place.url, place.folder) as (_, url):
        key = key_of(place.engine)
        for each in (importing, exporting, submitting, showing):
            each(place, url, key)
    with scene() as place, process(place.url, place.folder) as (_, url):
        pages(url, place.url, key_of(place.engine))


if __name__ == "__main__":
    main()
