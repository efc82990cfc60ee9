"""What the import benchmarks share: users are loaded by `psql \\copy` and by our workers, in turns, into the same table
on the same server."""

import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from benchmarks import measure
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded import binaries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.storage.local.storage import LocalStorage

COLUMNS = "id, email, name, role, active, created_at, updated_at"


@dataclass
class Scene:
    url: str
    folder: Path
    engine: Engine
    workers: ProcessPoolExecutor
    before: Path | None = None
    """A file with the rows that the table holds already when a load begins; without one, the table is empty."""

    def empty(self) -> None:
        with pool.single(self.url) as connection:
            connection.execute("TRUNCATE users CASCADE")
        if self.before is not None:
            self.copied(self.before)
        measure.settle_down(self.url)

    def copied(self, source: Path) -> None:
        command = f"\\copy users ({COLUMNS}) FROM '{source}' WITH (FORMAT csv, HEADER)"
        subprocess.run([binaries.embedded() / "psql", "-q", self.url, "-c", command], check=True)

    def psql(self, source: Path, rows: int) -> float:
        """Return the seconds in which psql copies the file."""
        self.empty()
        begun = time.perf_counter()
        self.copied(source)
        seconds = time.perf_counter() - begun
        self.check(rows)
        return seconds

    def ours(self, source: Path, rows: int, workers: int) -> float:
        """Return the seconds from the submission to the end: landing, cutting, loading, reconciling."""
        self.empty()
        begun = time.perf_counter()
        with transaction(self.engine) as connection:
            request = Options("users").request((RequestedFile.of(str(source)),))
            job = submission.submit(connection, request, Sender("bench", "cli")).job
        self.work(job.job_key, workers)
        seconds = time.perf_counter() - begun
        with transaction(self.engine) as connection:
            assert jobs.find(connection, job.job_key).finished
        # Without the copies of the rounds before, no side has to wait for memory that the machine never used yet.
        landing.remove(LocalStorage(self.folder / "landed"), job.job_key)
        self.check(rows)
        return seconds

    def work(self, job_key: str, workers: int, worker: Callable[[str, Job], None] | None = None) -> None:
        """Plan a job that was submitted, and have workers work it to its end."""
        with transaction(self.engine) as connection:
            job = jobs.start(connection, job_key)
        planning.plan(self.engine, job)
        for each in [self.workers.submit(worker or work, self.url, job) for _ in range(workers)]:
            each.result()

    def check(self, rows: int) -> None:
        with pool.single(self.url) as connection:
            found = connection.execute("SELECT count(*) FROM users").fetchone()
        assert found == (rows,), found


def work(url: str, job: Job) -> None:
    engine = pool.connect(url)
    with Worker(engine, KINDS, job) as worker:
        drain(worker)
    engine.dispose()


def ready() -> int:
    """Do nothing that matters: a worker process that runs this has imported what it needs before a clock runs."""
    return len(KINDS)


@contextmanager
def scene() -> Iterator[Scene]:
    with (
        tempfile.TemporaryDirectory(prefix="bulk-bench-") as folder,
        measure.server() as running,
        measure.database(running) as url,
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as workers,
    ):
        os.environ["BULK_HOME"] = folder
        for each in [workers.submit(ready) for _ in range(8)]:
            each.result()
        engine = pool.connect(url)
        yield Scene(url, Path(folder), engine, workers)
        engine.dispose()
