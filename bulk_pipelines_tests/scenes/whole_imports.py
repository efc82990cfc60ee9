"""Imports as whole jobs, planned and worked in this process, without Dagster."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake.adaptive import BatchLimits
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.imports.work import Loader, Read, unheard
from bulk_pipelines.settings.engine import EngineSettings


def submitted(engine: Engine, resource: str, sources: Iterable[Path], **options: Any) -> Job:
    files = tuple(RequestedFile.of(str(source)) for source in sources)
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


def batches_of(rows: int) -> BatchLimits:
    """Return limits by which all batches have this size."""
    return replace(limits_of(EngineSettings()).load, min_rows=rows, start_rows=rows, max_rows=rows)


def kinds_by(limits: BatchLimits, loading: Callable[[Read], None] = unheard) -> Kinds:
    """Return the kinds of imports with batches by these limits. `loading` is called before each batch is loaded."""
    handle = Loader(limits, loading).handle
    return Kinds(replace(kind, handle=handle) for kind in KINDS.values())


def imported(engine: Engine, resource: str, *sources: Path, **options: Any) -> Job:
    return worked(engine, begun(engine, submitted(engine, resource, sources, **options)))


def refreshed(engine: Engine, job: Job) -> Job:
    with transaction(engine) as connection:
        return jobs.find(connection, job.job_key)
