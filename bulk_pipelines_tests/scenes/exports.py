"""Exports as jobs: submitted, worked in this process or by others, and tables that take their time to read."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.worker.drain import Drained, drain
from bulk_pipelines.engine.worker.retry import Backoff, RetryPolicy
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.exports import submission, work
from bulk_pipelines.exports.kind import KINDS
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.exports.work import Point
from bulk_pipelines.settings import CHECKOUT


def quick(kind: Kind) -> Kind:
    """Return the kind with leases that run out soon, and retries that do not wait for long."""
    delays = dict.fromkeys(kind.retry.backoffs, Backoff(0.1, 0.2))
    return replace(
        kind,
        slices=SliceLimits(max_claim=1, first_claim=1, lease_floor=1.0),
        retry=RetryPolicy(backoffs=delays),
    )


QUICK = Kinds(quick(kind) for kind in KINDS.values())


def listened_to(at: Mapping[Point, Callable[[], object]]) -> Kinds:
    """Return the quick kinds, which do these things at points of each try."""

    def reached(point: Point) -> None:
        if point in at:
            at[point]()

    return Kinds(replace(kind, handle=partial(work.handle, reached=reached)) for kind in QUICK.values())


def submitted(engine: Engine, *, key: str | None = None, owner: str = "me", **params: Any) -> Job:
    with transaction(engine) as connection:
        asked = ExportRequest.parse({"resource": "users"} | params)
        return submission.submit(connection, asked, Sender(owner, "cli", idempotency_key=key)).job


def started(engine: Engine, **params: Any) -> Job:
    with transaction(engine) as connection:
        return jobs.start(connection, submitted(engine, **params).job_key)


def worked(engine: Engine, job: Job, at: Mapping[Point, Callable[[], object]] | None = None) -> Job:
    """Work the job in this process until it is over, and return it as it is then. `at` has what is done at points of
    each try."""
    with Worker(engine, listened_to(at or {}), job) as worker:
        ended: Drained = drain(worker)
    assert ended is not None
    return found(engine, job)


def exported(engine: Engine, **params: Any) -> Job:
    return worked(engine, started(engine, **params))


def found(engine: Engine, job: Job) -> Job:
    with transaction(engine) as connection:
        return jobs.find(connection, job.job_key)


def process(url: str, home: Path, job: Job, log: Path, environment: Mapping[str, str] | None = None) -> Any:
    """Start a worker in a process of its own, which works the job until it is over."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "bulk_pipelines_tests.chaos.exports.worker", job.job_key],
            env=os.environ | {"BULK_DATABASE_URL": url, "BULK_HOME": str(home)} | dict(environment or {}),
            cwd=CHECKOUT,
            stdout=output,
            stderr=output,
        )


def slow_down(connection: psycopg.Connection[Any], table: str = "users", seconds: float = 0.0005) -> None:
    """Make each row take that long to read, as in a huge table, so that there is time for what a test does in the
    middle."""
    connection.execute(f"ALTER TABLE {table} RENAME TO {table}_quick")
    connection.execute(
        f"CREATE VIEW public.{table} AS SELECT * FROM {table}_quick WHERE pg_sleep({seconds}) IS NOT NULL".encode()
    )


def speed_up(connection: psycopg.Connection[Any], table: str = "users") -> None:
    connection.execute(f"CREATE OR REPLACE VIEW public.{table} AS SELECT * FROM {table}_quick".encode())


def rows_so_far(connection: psycopg.Connection[Any], job: Job) -> int:
    row = connection.execute("SELECT row_count FROM export_progress WHERE job_id = %s", [job.job_id]).fetchone()
    return int(row[0]) if row else 0
