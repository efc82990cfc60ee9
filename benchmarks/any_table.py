"""The time to import a million rows of fourteen mixed columns into a table that was never declared, with one worker and
with two, against `psql \\copy` of the same file into the same table; and the time when two rows in a hundred break a
constraint that nobody declared."""

import json
import random
import subprocess
import sys
import time
import uuid
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import measure
from benchmarks.import_scene import Scene, scene
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded import binaries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.resources import reflection

ROWS = 1_000_000
ROUNDS = 5
CUSTOMERS = 10_000
PERCENT = 2

SCHEMA = f"""
CREATE SCHEMA shop;
CREATE TYPE shop.status AS ENUM ('new', 'paid', 'sent');
CREATE TABLE shop.customers (id integer PRIMARY KEY);
INSERT INTO shop.customers SELECT generate_series(1, {CUSTOMERS});
CREATE TABLE shop.orders (
    id bigint PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES shop.customers,
    total numeric(12, 2) NOT NULL,
    ordered date NOT NULL,
    paid_at timestamptz,
    status shop.status NOT NULL,
    details jsonb,
    note text,
    gift boolean NOT NULL,
    items integer NOT NULL,
    weight double precision,
    code varchar(20) NOT NULL,
    token uuid NOT NULL,
    tags text[],
    CHECK (items > 0)
);
"""
"""The table as somebody else made it, with a CHECK that our declaration does not know."""


def write(path: Path, rows: int, bad: int) -> Path:
    """Write a file of orders, in which so many in a hundred break the CHECK."""
    chance = random.Random(14)
    with path.open("w") as file:
        file.write("id,customer_id,total,ordered,paid_at,status,details,note,gift,items,weight,code,token,tags\n")
        for number in range(1, rows + 1):
            items = 0 if chance.randrange(100) < bad else chance.randint(1, 9)
            details = json.dumps({"channel": "web", "lines": items}).replace('"', '""')
            file.write(
                f"{number},{chance.randint(1, CUSTOMERS)},{chance.randint(100, 9_999_999) / 100:.2f},"
                f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02},"
                f"2026-01-{chance.randint(1, 28):02} 12:{chance.randint(0, 59):02}:00+00,"
                f'{chance.choice(("new", "paid", "sent"))},"{details}",a note of order {number},'
                f"{chance.choice(('true', 'false'))},{items},{chance.random() * 100:.4f},C{number:08},"
                f'{uuid.UUID(int=chance.getrandbits(128))},"{{red,""dark blue""}}"\n'
            )
    return path


class Orders:
    def __init__(self, place: Scene) -> None:
        self.place = place
        with pool.single(place.url) as connection:
            connection.execute(SCHEMA.encode(), prepare=False)

    def empty(self) -> None:
        with pool.single(self.place.url) as connection:
            connection.execute("TRUNCATE shop.orders")
        measure.settle_down(self.place.url)

    def psql(self, source: Path) -> float:
        self.empty()
        command = f"\\copy shop.orders FROM '{source}' WITH (FORMAT csv, HEADER)"
        begun = time.perf_counter()
        subprocess.run([binaries.embedded() / "psql", "-q", self.place.url, "-c", command], check=True)
        return time.perf_counter() - begun

    def ours(self, source: Path, workers: int) -> float:
        """Return the seconds from the submission to the end: reflecting, landing, cutting, loading, reconciling."""
        self.empty()
        begun = time.perf_counter()
        with transaction(self.place.engine) as connection:
            declared = reflection.reflect(connection, "shop.orders")
            options = Options(declared.name, declaration=declared)
            request = options.request((RequestedFile.of(str(source)),))
            job = submission.submit(connection, request, Sender("bench", "cli")).job
        self.place.work(job.job_key, workers)
        seconds = time.perf_counter() - begun
        with transaction(self.place.engine) as connection:
            job = jobs.find(connection, job.job_key)
            assert job.finished
            found = connection.execute("SELECT count(*) FROM shop.orders").fetchone()
        assert job.result is not None
        assert found == (job.result["loaded"],)
        assert job.result["read"] == job.result["loaded"] + job.result["rejected"]
        return seconds


def main(rows: int = ROWS, rounds: int = ROUNDS) -> None:
    with scene() as place:
        orders = Orders(place)
        clean = write(place.folder / "orders.csv", rows, 0)
        dirty = write(place.folder / "dirty.csv", rows, PERCENT)
        sides = [
            partial(orders.psql, clean),
            partial(orders.ours, clean, 1),
            partial(orders.ours, clean, 2),
            partial(orders.ours, dirty, 2),
        ]
        psql, one, two, refused = measure.in_turns(sides, rounds)
    measure.show("psql \\copy", psql, "s")
    measure.show("ours, one worker", one, "s")
    measure.show("ours, two workers", two, "s")
    measure.show(f"ours, two workers, {PERCENT} % refused by a CHECK", refused, "s")
    measure.report("any-table-1-worker", median(one), median(psql), "s")
    measure.report("any-table", median(two), median(psql), "s")
    measure.report("any-table-refused", median(refused), median(two), "s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
