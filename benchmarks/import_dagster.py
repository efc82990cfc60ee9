"""What Dagster adds to an import: `make bench-import-dagster`.

The same file is imported by a run of Dagster, as `bulk import` starts it, and by a worker in this process, without
Dagster. The benchmark tells the seconds to the first committed batch and those in all, for a small file and for a large
one.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from sqlalchemy import Engine

from benchmarks import user_files
from benchmarks.measure import report
from bulk_pipelines import settings
from bulk_pipelines.database import ready
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.up import home

REPEATS = {1_000: 5, 1_000_000: 3}


def submitted(pool: Engine, source: Path) -> Job:
    with transaction(pool) as connection:
        connection.execute("TRUNCATE users CASCADE")
        request = Options("users").request((RequestedFile.of(str(source)),))
        return submission.submit(connection, request, Sender("bench", "cli")).job


def times(pool: Engine, job: Job, began: float) -> tuple[float, float]:
    """Return the seconds from `began` to the first batch of records and to the end, by the clock that both sides
    share."""
    with transaction(pool) as connection:
        row = connection.execute(
            "SELECT extract(epoch FROM min(step.taken_at))::float8, extract(epoch FROM job.finished_at)::float8"
            " FROM job JOIN batch_step AS step USING (job_id)"
            " WHERE job_id = %s AND step.worker <> 'persist' GROUP BY job.finished_at",
            [job.job_id],
        ).fetchone()
    assert row is not None
    assert row[1] is not None, "the import has not ended"
    return row[0] - began, row[1] - began


def with_dagster(pool: Engine, source: Path, chosen: settings.Settings) -> tuple[float, float]:
    job = submitted(pool, source)
    began = time.time()
    process: subprocess.Popen[bytes] = home.work(chosen, job.job_key)
    assert process.wait() == 0, "the run failed"
    return times(pool, job, began)


def without_dagster(pool: Engine, source: Path) -> tuple[float, float]:
    job = submitted(pool, source)
    began = time.time()
    with transaction(pool) as connection:
        job = jobs.start(connection, job.job_key)
    planning.plan(pool, job)
    with Worker(pool, KINDS, job) as worker:
        drain(worker)
    return times(pool, job, began)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as folder:
        os.environ["BULK_HOME"] = folder
        chosen = replace(settings.current(), home=Path(folder))
        pool = ready.opened(chosen, "bench")
        for rows, repeats in REPEATS.items():
            source = Path(folder) / f"users-{rows}.csv"
            user_files.write(source, user_files.users(rows))
            samples = [(with_dagster(pool, source, chosen), without_dagster(pool, source)) for _ in range(repeats)]
            for place, what in enumerate(("first-batch", "in-all")):
                ours = [dagster[place] for dagster, _ in samples]
                peer = [plain[place] for _, plain in samples]
                print(f"{what} of {rows:,} rows: with {ours}, without {peer}", file=sys.stderr)
                report(f"import-dagster-{rows}-{what}", median(ours), median(peer), "s")
        pool.dispose()


if __name__ == "__main__":
    main()
