"""The most memory that a worker process takes to plan and load 100 thousand and 5 million users."""

import multiprocessing
import os
import resource
import sys
import tempfile
from pathlib import Path

from benchmarks import measure, user_files
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.request import Options, RequestedFile

FEW, MANY = 100_000, 5_000_000


def peak(url: str, source: Path) -> float:
    """Return the most memory, in megabytes, that this process took from its start to its end."""
    engine = pool.connect(url)
    with transaction(engine) as connection:
        request = Options("users").request((RequestedFile.of(str(source)),))
        job = submission.submit(connection, request, Sender("bench", "cli")).job
        job = jobs.start(connection, job.job_key)
    planning.plan(engine, job)
    with Worker(engine, KINDS, job) as worker:
        drain(worker)
    with transaction(engine) as connection:
        assert jobs.find(connection, job.job_key).finished
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    peaks = []
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as folder, measure.server() as running:
        os.environ["BULK_HOME"] = folder
        for rows in (FEW, MANY):
            source = user_files.write(Path(folder) / f"users-{rows}.csv", user_files.users(rows))
            with measure.database(running) as url, multiprocessing.get_context("spawn").Pool(1) as process:
                peaks.append(process.apply(peak, (url, source)))
            print(f"{rows:,} rows: {peaks[-1]:.0f} MB", file=sys.stderr)
    measure.report("import-memory", peaks[1], peaks[0], "MB")


if __name__ == "__main__":
    main()
