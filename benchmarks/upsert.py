"""What it costs an upsert to say which rows it inserted, updated and left as they were: 200,000 records that are all
new, all changed or all unchanged, against the same upsert without the comparison, and against a script of SQL that says
nothing: psql copies the file into a temporary table, and one INSERT … ON CONFLICT DO UPDATE takes it from there.

The seconds are those of all processors that the server and the worker take: what the comparison adds is less than what
a busy machine adds to the time by the clock."""

import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from unittest.mock import patch

import psutil

from benchmarks import import_scene, measure
from benchmarks.any_table import SCHEMA, write
from benchmarks.import_scene import Scene, scene
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded import binaries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.reconcile import unchanged
from bulk_pipelines.imports.reconcile.unchanged import RowsBefore
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.resources import reflection

ROWS = 200_000
ROUNDS = 5
COLUMNS = [
    *("customer_id", "total", "ordered", "paid_at", "status", "details", "note"),
    *("gift", "items", "weight", "code", "token", "tags"),
]


def not_compared(_connection: Connection, *_others: object) -> RowsBefore:
    """Stand in for the comparison. Of a table that is not ours it is asked for nothing else."""
    return RowsBefore()


def work_without(url: str, job: Job) -> None:
    with patch.object(unchanged, "compared", not_compared):
        import_scene.work(url, job)


def processor(place: Scene) -> float:
    """Return the seconds that this process, the server and the processes below them have taken so far."""
    with pool.single(place.url) as connection:
        backend = psutil.Process(connection.info.backend_pid)
        server = backend.parent()
        assert server is not None
        found = 0.0
        for root in (psutil.Process(), server):
            for each in (root, *root.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):  # its parent counts it from now on
                    times = each.cpu_times()
                    found += times.user + times.system + times.children_user + times.children_system
    return found


class Upserts:
    def __init__(self, place: Scene, rows: int) -> None:
        self.place = place
        with pool.single(place.url) as connection:
            connection.execute(SCHEMA.encode(), prepare=False)
        self.given = write(place.folder / "orders.csv", rows, 0)
        text = self.given.read_text()
        self.others = place.folder / "others.csv"
        self.others.write_text(text.replace("a note of order", "another note of order"))

    def prepared(self, before: Path | None) -> None:
        with pool.single(self.place.url) as connection:
            connection.execute("TRUNCATE shop.orders")
        if before is not None:
            self.psql(f"\\copy shop.orders FROM '{before}' WITH (FORMAT csv, HEADER)")
        measure.settle_down(self.place.url)

    def psql(self, *commands: str) -> None:
        words = [word for each in commands for word in ("-c", each)]
        subprocess.run([binaries.embedded() / "psql", "-q", self.place.url, *words], check=True)

    def plain(self, before: Path | None) -> float:
        self.prepared(before)
        begun = processor(self.place)
        self.psql(
            "CREATE TEMP TABLE given (LIKE shop.orders)",
            f"\\copy given FROM '{self.given}' WITH (FORMAT csv, HEADER)",
            "INSERT INTO shop.orders SELECT * FROM given ON CONFLICT (id) DO UPDATE SET "
            + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS),
        )
        return processor(self.place) - begun

    def ours(self, before: Path | None, compares: bool) -> float:
        self.prepared(before)
        begun = processor(self.place)
        with transaction(self.place.engine) as connection:
            declared = reflection.reflect(connection, "shop.orders")
            options = Options(declared.name, mode=Mode.UPSERT, declaration=declared)
            request = options.request((RequestedFile.of(str(self.given)),))
            job = submission.submit(connection, request, Sender("bench", "cli")).job
        self.place.work(job.job_key, 1, import_scene.work if compares else work_without)
        seconds = processor(self.place) - begun
        with transaction(self.place.engine) as connection:
            result = jobs.find(connection, job.job_key).result
        assert result is not None
        assert result["loaded"] > 0
        assert not compares or (result["unchanged"] > 0) == (before == self.given)
        return seconds


def main(rows: int = ROWS, rounds: int = ROUNDS) -> None:
    with scene() as place:
        upserts = Upserts(place, rows)
        cases = {"new": None, "changed": upserts.others, "unchanged": upserts.given}
        sides = [
            side
            for before in cases.values()
            for side in (
                partial(upserts.ours, before, True),
                partial(upserts.ours, before, False),
                partial(upserts.plain, before),
            )
        ]
        found = measure.in_turns(sides, rounds)
    for number, name in enumerate(cases):
        compared, without, plain = found[3 * number : 3 * number + 3]
        measure.show(f"all {name}, compared", compared, "s")
        measure.show(f"all {name}, not compared", without, "s")
        measure.show(f"all {name}, by INSERT … ON CONFLICT", plain, "s")
        measure.report(f"upsert-{name}", median(compared), median(without), "s")
        measure.report(f"upsert-{name}-plain", median(compared), median(plain), "s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
