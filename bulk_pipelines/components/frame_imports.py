"""A frame is imported: its rows are sent, planned and worked in this process, with the checks of every import.

The job has an idempotency key, made of the run that was the first of its kind, the asset and the partition. So a step
that was killed and is tried again, or executed again in another run, goes on with the job that it has begun, if it has
the same rows.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.client.contents import read
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import IdempotencyConflict, InFlight
from bulk_pipelines.engine.jobs import audit, dispatch, dlq, jobs, runs, telling
from bulk_pipelines.engine.jobs import end as finish
from bulk_pipelines.engine.jobs.dlq import Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.states import JOB_MOVES, JobEvent, JobState, sources
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.errors import BulkError, Conflict, Unavailable
from bulk_pipelines.imports import definitions as importing
from bulk_pipelines.imports.request import Options
from bulk_pipelines.imports.sent import receiving, uploads
from bulk_pipelines.orchestration.failures import LETTERS_SHOWN, has_failed, reason, shown
from bulk_pipelines.orchestration.pipeline import Pipeline
from bulk_pipelines.orchestration.steps import failed_unless_planned, reported
from bulk_pipelines.orchestration.terminations import TERMINATED
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.storage.compression import Compression

WELL = (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS)


@dataclass(frozen=True)
class Sent:
    """A frame as a file that arrives."""

    file: BinaryIO
    asked: Options
    name: str
    priority: int = 0
    compression: Compression | None = Compression.NONE

    def pieces(self) -> Iterator[bytes]:
        self.file.seek(0, os.SEEK_SET)
        return read(self.file)

    def options(self) -> Options:
        return self.asked


@dataclass(frozen=True)
class Origin:
    """The step that imports a frame."""

    asset: str
    what: str
    """What the step makes, the same however often it is tried: the asset, its partition, and the first run."""
    run_id: str
    terminated: Callable[[], bool]
    """Whether a person has terminated the run."""


def submitted(pool: Engine, sent: Sent, origin: Origin) -> Job:
    """Return the job that imports the frame: the one that an earlier try has submitted, or a new one. A job that has
    failed, or has ended with other rows, is left as it is."""
    number = 1
    deadline = time.monotonic() + 2 * uploads.SENDING_SECONDS
    while True:
        sender = Sender(origin.asset, "ui", f"{origin.what}, {number}")
        try:
            job = receiving.import_sent(pool, settings.current(), sent, sender, lambda *_: None).job
        except IdempotencyConflict as conflict:
            with transaction(pool) as connection:
                job = jobs.find(connection, conflict.job_key)
            if not job.finished:
                raise Conflict(
                    f"an earlier try of this step has sent other rows, as job {job.job_key}, which is {job.status}:"
                    f" wait for its end, or cancel it, and execute the step again"
                ) from None
        except InFlight:
            # The process that sent it may have died. Then nobody holds the key any more when some seconds have passed.
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)
            continue
        else:
            if not job.finished or (job.status in WELL and not has_failed(job)):
                return job
        number += 1


def worked(pool: Engine, job: Job, pipeline: Pipeline, origin: Origin) -> Job:
    """Plan the job and work it until it is over, and return it as it is then."""
    job = taken_up(pool, job, origin)
    if job.status is JobState.RUNNING:
        with (
            pausing(pool, job, origin),
            dispatch.beating(pool, job.job_id, settings.current().silent_seconds),
            telling.about(job, run_id=origin.run_id, step=origin.asset),
        ):
            job = planned(pool, job, pipeline)
            if job.status is JobState.RUNNING:
                with Worker(pool, {pipeline.kind.name: pipeline.kind}, job) as worker:
                    drain(worker)
    with transaction(pool) as connection:
        job = jobs.find(connection, job.job_key)
    if finish.is_due(job):
        job = finish.attempt_due(pool, pipeline.kind, job.job_key)
    if job.status in (JobState.FAILED, JobState.CANCELLED):
        pipeline.wind_up(pool, job.job_key)
    return job


def taken_up(pool: Engine, job: Job, origin: Origin) -> Job:
    """Start the job, or resume it. As long as this process beats for it, the relay launches no run for it."""
    with transaction(pool) as connection:
        job = runs.begun(connection, jobs.lock(connection, job.job_key), origin.run_id, by_person=True)
        if job.status is JobState.RUNNING:
            dispatch.begun(connection, job.job_id, origin.run_id)
    return job


def planned(pool: Engine, job: Job, pipeline: Pipeline) -> Job:
    if job.planned_at is not None:
        return job
    try:
        return pipeline.plan(pool, job)
    except Unavailable:
        raise  # this may pass: the step can be tried again
    except BulkError as error:
        return failed_unless_planned(pool, job, error)


@contextmanager
def pausing(pool: Engine, job: Job, origin: Origin) -> Iterator[None]:
    """Pause the job if a person terminates its run. The step goes on with it when it is executed again."""
    try:
        yield
    except (DagsterExecutionInterruptedError, KeyboardInterrupt):
        if origin.terminated():
            with transaction(pool) as connection:
                if jobs.lock(connection, job.job_key).status in sources(JOB_MOVES, JobEvent.PAUSE):
                    jobs.pause(connection, job.job_key, audit.UI)
        raise


def imported(pool: Engine, file: BinaryIO, options: Options, declared: Resource, origin: Origin) -> Job:
    """Import a frame that was written to a file. Raise a failure with the reason if the import has not ended well."""
    pipeline = importing.pipeline(declared)
    job = submitted(pool, Sent(file, options, origin.asset), origin)
    job = worked(pool, job, pipeline, origin)
    if job.status in WELL and not has_failed(job):
        return job
    with transaction(pool) as connection:
        letters = dlq.page(connection, Wanted(job_key=job.job_key), LETTERS_SHOWN) if job.dlq_items else []
    said = reason(job, letters) if has_failed(job) else f"job {job.job_key} is {job.status}: it has not loaded all rows"
    metadata = {**reported(pipeline, pool, job), **shown(job, letters)}
    raise dg.Failure(said, metadata=metadata, allow_retries=False)


def terminated(instance: dg.DagsterInstance, run_id: str) -> Callable[[], bool]:
    def look() -> bool:
        run = instance.get_run_by_id(run_id)
        return run is not None and run.status in TERMINATED

    return look
