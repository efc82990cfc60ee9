"""What a person means who terminates a run in Dagster's UI: the run's job is paused, so that it can go on later where
it was; or it is cancelled, if the run has the tag that says so.

A step that is interrupted sees to it at once. This cannot be left to the interrupt alone: Dagster starts a step with a
retry policy again, and in a run of one process that undoes the termination. For runs that were still in the queue, or
whose processes are gone, the relay looks once a second. What both miss while no daemon runs is left to the sweeper.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.engine.jobs import jobs, runs
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines.orchestration.runs import BY_ASSET, ENDED_TAG, PARTITION

TERMINATE_TAG = "bulk/on_terminate"
CANCELS = "cancel"

TERMINATED = [dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED]
LOOK_BACK = timedelta(minutes=10)
"""How long ago a run may have been terminated to be found here."""
RUNS_LOOKED_AT = 1_000
RUNS_OF_JOB = 10
SECONDS_BETWEEN = 1.0


def event_of(run: dg.DagsterRun) -> JobEvent:
    """Return what the person wants of the job who terminates this run."""
    return JobEvent.CANCEL if run.tags.get(TERMINATE_TAG) == CANCELS else JobEvent.PAUSE


@contextmanager
def heeding(context: dg.OpExecutionContext, pool: Engine) -> Iterator[None]:
    """Stop the job before the step ends, if the step is interrupted because a person has terminated its run. A step
    that is interrupted for another reason, such as the end of the installation, leaves the job alone."""
    try:
        yield
    except (DagsterExecutionInterruptedError, KeyboardInterrupt):
        run = context.instance.get_run_by_id(context.run_id)
        if run is not None and run.status in TERMINATED:
            heed_run(context.instance, pool, run)
        raise


def watch(
    instance: dg.DagsterInstance,
    pool: Engine,
    kinds: Collection[str],
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], list[str]]:
    """Return a function that can be called often, and looks for terminated runs once a second."""
    last = clock() - SECONDS_BETWEEN

    def look() -> list[str]:
        nonlocal last
        if clock() < last + SECONDS_BETWEEN:
            return []
        last = clock()
        return heed(instance, pool, kinds)

    return look


def heed(instance: dg.DagsterInstance, pool: Engine, kinds: Collection[str]) -> list[str]:
    """Pause or cancel the jobs whose runs a person has terminated lately, and say what was done."""
    filters = dg.RunsFilter(statuses=TERMINATED, updated_after=datetime.now(UTC) - LOOK_BACK)
    found = [record.dagster_run for record in instance.get_run_records(filters, limit=RUNS_LOOKED_AT)]
    ours = {run.run_id: run for run in found if run.job_name in {*kinds, BY_ASSET} and PARTITION in run.tags}
    if not ours:
        return []
    with transaction(pool) as connection:
        new = runs.not_terminated(connection, list(ours))
    return [said for run_id in sorted(new) if (said := heed_run(instance, pool, ours[run_id]))]


def heed_run(instance: dg.DagsterInstance, pool: Engine, run: dg.DagsterRun) -> str | None:
    event = event_of(run) if is_last(instance, run) else None
    try:
        with transaction(pool) as connection:
            before = jobs.find(connection, run.tags[PARTITION])
            runs.terminate(connection, before.job_key, run.run_id, event)
            after = jobs.find(connection, before.job_key)
    except UnknownJob:
        return None  # retention has removed it, or the key was none
    if after.status is before.status:
        return None
    if after.status is JobState.CANCELLED:
        jobs.cancel_waiting(pool, after.job_id)
    said = f"job {after.job_key} is {after.status}, because its run was terminated"
    instance.add_run_tags(run.run_id, {ENDED_TAG: said})
    return said


def is_last(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether this is the last run of its job, and no other one is at work: then to end it means to stop the job."""
    filters = dg.RunsFilter(tags={PARTITION: run.tags[PARTITION]})
    found = [record.dagster_run for record in instance.get_run_records(filters, limit=RUNS_OF_JOB)]
    others = [other for other in found if other.run_id != run.run_id]
    return bool(found) and found[0].run_id == run.run_id and all(other.is_finished for other in others)
