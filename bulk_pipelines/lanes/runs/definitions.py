"""A run and its job: who began the run and what that means, how long it may work, and what it says when it ends."""

import time

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import dispatch, jobs, redrive
from bulk_pipelines.engine.jobs import Job
from bulk_pipelines.engine.states import JOB_MOVES, JobEvent, JobState, sources

MAX_RETRIES = "dagster/max_retries"
RETRY_NUMBER = "dagster/retry_number"
"""Of a run that Dagster launched because the one before had died."""
LAUNCH_TAG = "bulk/launch"
"""Of a run that the relay asked for: which launch of the job it is."""
BUDGET_TAG = "bulk/run_budget"
UNLIMITED = "unlimited"
"""For a run that somebody waits for: no other one would go on with its job where nothing but the command runs."""


def started(context: dg.OpExecutionContext, pool: Engine) -> Job:
    """The job of this run's partition, at work if it may be."""
    job = taken_up(context, pool)
    with transaction(pool) as connection:
        _, state = jobs.locked(connection, job.job_key)
        if state in sources(JOB_MOVES, JobEvent.START):
            return jobs.start(connection, job.job_key, context.run_id)
        return jobs.find(connection, job.job_key)


def taken_up(context: dg.OpExecutionContext, pool: Engine) -> Job:
    """A run that a person began resumes a paused job, and tries again what one that is over gave up: with its first
    step, whichever that is, as a run may be executed again from where it failed. No run does so by itself."""
    with transaction(pool) as connection:
        job = jobs.find(connection, context.partition_key)
    if job.dagster_run_id == context.run_id or not is_by_hand(context.run):
        return job
    if job.status in sources(JOB_MOVES, JobEvent.REDRIVE) and job.dlq_items:
        redriven = redrive.redrive(pool, job.job_key, run_follows=True)
        context.log.info(f"job {job.job_key} was {job.status}: {redriven} items are tried again")
    with transaction(pool) as connection:
        _, state = jobs.locked(connection, job.job_key)
        if state is JobState.PAUSED:
            context.log.info(f"job {job.job_key} was paused: this run goes on with it")
            jobs.resume(connection, job.job_key)
        job = jobs.find(connection, job.job_key)
        if state is JobState.FAILED and job.planned_at is None:
            job = jobs.move(connection, job.job_key, JobEvent.REDRIVE)  # it failed before it had items: plan again
        if job.status in sources(JOB_MOVES, JobEvent.START):
            job = jobs.start(connection, job.job_key, context.run_id)
    # Copied from a run that had failed for good; this one may be started again when it dies.
    context.instance.add_run_tags(context.run_id, {MAX_RETRIES: str(context.instance.run_retries_max_retries)})
    return job


def is_by_hand(run: dg.DagsterRun) -> bool:
    """Launched or executed again by a person: not by the relay, nor by Dagster because its worker had died."""
    return RETRY_NUMBER not in run.tags if run.parent_run_id else LAUNCH_TAG not in run.tags


def seconds_left(context: dg.OpExecutionContext) -> float | None:
    """Of the run's budget; None: it has none."""
    if context.run.tags.get(BUDGET_TAG) == UNLIMITED:
        return None
    record = context.instance.get_run_record_by_id(context.run_id)
    begun = record.start_time if record and record.start_time else time.time()
    return begun + settings.current().run_seconds - time.time()


def hand_over(context: dg.OpExecutionContext, pool: Engine, job: Job) -> None:
    """The run's budget is spent: it ends well, and the relay launches one that goes on."""
    with transaction(pool) as connection:
        dispatch.hand_over(connection, job.job_id, context.run_id)
    done = job.total_items - job.open_items
    tell_end(
        context,
        f"job {job.job_key} goes on in another run: this one has spent its {settings.current().run_seconds:,} seconds; "
        f"{done:,} of {job.total_items:,} items are done",
    )


def tell_end(context: dg.OpExecutionContext, said: str) -> None:
    """Why a run ends that materializes nothing: in its log, and as a tag, which the list of runs shows."""
    context.log.info(said)
    context.instance.add_run_tags(context.run_id, {"bulk/ended": said})
