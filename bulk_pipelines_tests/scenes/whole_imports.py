"""Imports as whole jobs, planned and worked in this process, without Dagster."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job, Sender
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.request import Options


def submitted(engine: Engine, resource: str, sources: Iterable[Path], **options: Any) -> Job:
    files = tuple(submission.local_file(str(source)) for source in sources)
    with transaction(engine) as connection:
        return submission.submit(connection, Options(resource, **options).request(files), Sender("me", "cli")).job


def begun(engine: Engine, job: Job) -> Job:
    """Start the job and plan it. Return it, not worked yet."""
    with transaction(engine) as connection:
        job = jobs.start(connection, job.job_key)
    planning.plan(engine, job)
    return refreshed(engine, job)


def worked(engine: Engine, job: Job, kinds: Mapping[str, Kind] = KINDS) -> Job:
    """Let one worker stay with the job until it is over, and return the job as it is then."""
    with Worker(engine, kinds, job) as worker:
        drain(worker)
    return refreshed(engine, job)


def imported(engine: Engine, resource: str, *sources: Path, **options: Any) -> Job:
    return worked(engine, begun(engine, submitted(engine, resource, sources, **options)))


def refreshed(engine: Engine, job: Job) -> Job:
    with transaction(engine) as connection:
        return jobs.find(connection, job.job_key)
