"""Jobs for the launchpad that pause, resume, cancel or redrive a job. They call what the commands call."""

from collections.abc import Callable

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import audit, dlq, jobs
from bulk_pipelines.engine.jobs.dlq import Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import BulkError, Unavailable
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.runs import refused, tell_end

CONTROLS = ("pause", "resume", "cancel", "redrive")

NO_JOB = "J00000000_000000"
"""The key that the launchpad opens with, which no job has."""


class JobConfig(dg.Config):
    job: str = Field(description="The key of the job, such as J20260110_000777. It is the partition of its runs, too.")


class RedriveConfig(JobConfig):
    not_found: bool = Field(default=False, description="Try the items again for which nothing was found, too.")


def pause(pool: Engine, config: JobConfig) -> str:
    with transaction(pool) as connection:
        return told(jobs.pause(connection, config.job, audit.UI))


def resume(pool: Engine, config: JobConfig) -> str:
    with transaction(pool) as connection:
        return told(jobs.resume(connection, config.job, audit.UI))


def cancel(pool: Engine, config: JobConfig) -> str:
    return told(jobs.cancel(pool, config.job, audit.UI))


def redrive(pool: Engine, config: RedriveConfig) -> str:
    with transaction(pool) as connection:
        jobs.find(connection, config.job)  # so that an unknown key is not taken for a job without dead letters
    done = dlq.try_again(pool, Wanted(job_key=config.job), audit.UI, not_found=config.not_found)
    if done.goes_on:
        return f"job {config.job} goes on with what it had not begun"
    return f"{counted(done.items, 'item')} of job {config.job} {'is' if done.items == 1 else 'are'} tried again"


def told(job: Job) -> str:
    return f"job {job.job_key} is {job.status}"


def act(context: dg.OpExecutionContext, pool: Engine, what: Callable[[Engine], str]) -> None:
    try:
        said = what(pool)
    except Unavailable:
        raise
    except BulkError as error:
        raise refused(context, str(error)) from None
    tell_end(context, said)
    context.add_output_metadata({"said": said})


@dg.op(description="Stops the work on a job at the next slice border. `resume` goes on with it.")
def pause_job(context: dg.OpExecutionContext, database: Database, config: JobConfig) -> None:
    act(context, database.engine, lambda pool: pause(pool, config))


@dg.op(description="Goes on with a paused job: the relay launches a run within seconds.")
def resume_job(context: dg.OpExecutionContext, database: Database, config: JobConfig) -> None:
    act(context, database.engine, lambda pool: resume(pool, config))


@dg.op(
    description="Cancels a job for good: what waits is cancelled now, what is in work ends at the next slice border."
)
def cancel_job(context: dg.OpExecutionContext, database: Database, config: JobConfig) -> None:
    act(context, database.engine, lambda pool: cancel(pool, config))


@dg.op(
    description="Tries the dead letters of a job again, with fresh budgets: the relay launches a run within seconds."
)
def redrive_job(context: dg.OpExecutionContext, database: Database, config: RedriveConfig) -> None:
    act(context, database.engine, lambda pool: redrive(pool, config))


def controls() -> dg.Definitions:
    ops = (pause_job, resume_job, cancel_job, redrive_job)
    return dg.Definitions(
        jobs=[
            dg.GraphDefinition(name=name, node_defs=[op], description=op.description).to_job(
                executor_def=dg.in_process_executor, config={"ops": {op.name: {"config": {"job": NO_JOB}}}}
            )
            for name, op in zip(CONTROLS, ops, strict=True)
        ]
    )
