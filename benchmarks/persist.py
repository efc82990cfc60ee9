"""The time to persist a million rows of a CSV file as the items of a job, its landing and the checks of every row
included, against `psql \\copy` of the same items into the same table.

The peer's file holds the finished items, so it neither reads CSV, nor makes JSON, nor checks anything.
"""

import os
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

from sqlalchemy import Engine

from benchmarks import measure
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded import binaries
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.processing.intake import planning, records
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.request import ProcessingRequest, kind_name

ROWS = 1_000_000
ROUNDS = 3
RECIPE = Recipe.parse("bench", {"type": "lookup", "needs": ["title"]})
KIND = kind_name("lookup")


def write(path: Path) -> Path:
    """Write products as people have them: a title, a brand, a number and a price."""
    with path.open("w") as file:
        file.write("title,brand,sku,price\n")
        for number in range(ROWS):
            file.write(f'"Lamp {number}, brass",Acme {number % 977},SKU-{number:09},{number % 10_000 / 100}\n')
    return path


def finished(source: Path, path: Path) -> Path:
    """Write the same rows as the text that COPY takes; the job has the number 1."""
    with path.open("w") as file:
        rows = records.opened([source.read_bytes()])
        for each in records.items(rows, 1):
            file.write(f"1\t{each.key}\tbench\t{KIND}\t{persist.copied(each.input)}\n")
    return path


def job(url: str, source: Path) -> tuple[Engine, jobs.Job]:
    engine = pool.connect(url)
    request = ProcessingRequest.parse(RECIPE, source=str(source))
    with transaction(engine) as connection:
        connection.execute("ALTER TABLE job ALTER job_id RESTART WITH 1")  # the number in the peer's file
        found = submission.submit(connection, KINDS, submission.Request(KIND, "bench", request.as_params())).job
        jobs.start(connection, found.job_key)
    return engine, found


def ours(running: Server, source: Path) -> float:
    with measure.database(running) as url:
        engine, made = job(url, source)
        measure.settle_down(url)
        begun = time.perf_counter()
        planning.plan(engine, made)
        seconds = time.perf_counter() - begun
        engine.dispose()
        check(url)
        return seconds


def peer(running: Server, source: Path, ready: Path) -> float:
    with measure.database(running) as url:
        engine, made = job(url, source)
        engine.dispose()
        assert made.job_id == 1
        measure.settle_down(url)
        parts = pool.parsed(url).set(drivername="postgresql").render_as_string(hide_password=False)
        command = f"\\copy bulk.job_item (job_id, item_key, owner, kind, input) FROM '{ready}'"
        begun = time.perf_counter()
        subprocess.run([binaries.embedded() / "psql", "-qX", "-d", parts, "-c", command], check=True)
        seconds = time.perf_counter() - begun
        check(url)
        return seconds


def check(url: str) -> None:
    with pool.single(url) as connection:
        row = connection.execute("SELECT count(*), count(DISTINCT item_key), min(input ->> 'brand') FROM job_item")
        assert row.fetchone() == (ROWS, ROWS, "Acme 0")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as folder, measure.server() as running:
        os.environ["BULK_HOME"] = folder
        source = write(Path(folder) / "rows.csv")
        ready = finished(source, Path(folder) / "items.copy")
        sides = [partial(ours, running, source), partial(peer, running, source, ready)]
        us, psql = measure.in_turns(sides, ROUNDS)
    measure.show("ours", [ROWS / each for each in us], "rows/s")
    measure.show("psql \\copy", [ROWS / each for each in psql], "rows/s")
    measure.report("persist-vs-copy", ROWS / median(us), ROWS / median(psql), "rows/s")


if __name__ == "__main__":
    main()
