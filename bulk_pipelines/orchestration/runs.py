"""A run and its job: who began the run and what that means, how long it may work, and what it says when it ends."""

import time
from collections.abc import Mapping
from typing import Any

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.engine.jobs import audit, dispatch, runs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.errors import InvalidInput

PARTITION = "dagster/partition"
RANGE = "dagster/asset_partition_range_start"
BY_ASSET = "__ASSET_JOB"
"""Dagster's name for the job of a run that a person began at an asset, and not at a job."""
MAX_RETRIES = "dagster/max_retries"
RETRY_NUMBER = "dagster/retry_number"
"""The tag of a run that Dagster launched because the run before it had died."""
LAUNCH_TAG = "bulk/launch"
"""The tag of a run that the relay asked for; it says which launch of the job this is."""
ENDED_TAG = "bulk/ended"
"""The tag that says why a run materialized nothing; the list of runs shows it."""
REDRIVE_TAG = "bulk/redrive"
"""The tag by which a person who executes a run again asks for more than the dead letters to be tried again."""
NOT_FOUND_TOO = "not_found"
REDRIVEN = "done"
"""What the tag says afterwards, so that a run that copies it does not ask again."""
BUDGET_TAG = "bulk/run_budget"
UNLIMITED = "unlimited"
"""The budget of a run that somebody waits for: where nothing but the command runs, no other run would go on with its
job."""


def taken_up(context: dg.OpExecutionContext, pool: Engine, kind: str) -> Job:
    """Take up the job of this run's partition, and return it, at work if it may be. Every step begins with this: a run
    may be executed again from where it failed, so any step can be its first."""
    try:
        job_key = partition_of(context.run)
        again = statuses_to_redrive(context.run)
        by_hand = is_by_hand(context.run)
        by = audit.UI if by_hand and not is_waited_for(context.run) else None
        taken = runs.take_up(pool, job_key, context.run_id, again, by_person=by_hand, kind=kind, by=by)
    except (InvalidInput, UnknownJob) as error:
        raise refused(context, str(error)) from None
    found = taken.job.kind
    if found != kind:
        raise refused(context, f"job {job_key} is of the kind {found}: launch {found} with it, not {kind}")
    # Retention may have pruned the key; without it nothing can be materialized.
    if not context.instance.has_dynamic_partition(partitions_name(kind), job_key):
        context.instance.add_dynamic_partitions(partitions_name(kind), [job_key])
    if (taken.first or taken.redriven) and context.run.tags.get(REDRIVE_TAG) == NOT_FOUND_TOO:
        context.instance.add_run_tags(context.run_id, {REDRIVE_TAG: REDRIVEN})
    if taken.first and is_by_hand(context.run):
        if taken.was is JobState.PAUSED:
            context.log.info(f"job {job_key} was paused: this run goes on with it")
        if taken.redriven:
            told = counted(taken.redriven, "item is", "items are")
            context.log.info(f"job {job_key} was {taken.was}: {told} tried again")
        # This tag was copied from a run that had failed for good; this run may be started again when it dies.
        context.instance.add_run_tags(context.run_id, {MAX_RETRIES: str(context.instance.run_retries_max_retries)})
    return taken.job


def partitions_name(kind: str) -> str:
    """Return the name under which Dagster keeps the keys of a kind's jobs."""
    return f"{kind}_jobs"


def partition_of(run: dg.DagsterRun) -> str:
    """Return the one key that the run is for, however it was launched."""
    if PARTITION in run.tags:
        return run.tags[PARTITION]
    if RANGE in run.tags:
        raise InvalidInput("partition", "is a range of keys: launch one run for each")
    raise InvalidInput("partition", "is missing: launch the run with the key of a job that was submitted before")


def statuses_to_redrive(run: dg.DagsterRun) -> list[ItemState]:
    """Return which items of a job that is over are tried again when a person executes its run again."""
    said = run.tags.get(REDRIVE_TAG, REDRIVEN)
    if said not in (NOT_FOUND_TOO, REDRIVEN):
        raise InvalidInput(f"the tag {REDRIVE_TAG}", f"{said!r} is not {NOT_FOUND_TOO}")
    return [ItemState.DLQ, ItemState.NOT_FOUND] if said == NOT_FOUND_TOO else [ItemState.DLQ]


def refused(context: dg.OpExecutionContext, why: str, metadata: Mapping[str, Any] | None = None) -> dg.Failure:
    """Return a failure that ends the run for good, because another try would find the same."""
    context.instance.add_run_tags(context.run_id, {MAX_RETRIES: "0"})
    return dg.Failure(why, metadata=metadata, allow_retries=False)


def is_by_hand(run: dg.DagsterRun) -> bool:
    """Whether a person launched the run or executed it again: not the relay, nor Dagster because its worker had
    died."""
    return RETRY_NUMBER not in run.tags if run.parent_run_id else LAUNCH_TAG not in run.tags


def is_waited_for(run: dg.DagsterRun) -> bool:
    """Whether somebody waits for the run. Nobody waits for a run that was executed again, though the tags of the first
    one are copied to it."""
    return run.tags.get(BUDGET_TAG) == UNLIMITED and not run.parent_run_id


def seconds_left(context: dg.OpExecutionContext) -> float | None:
    """Return how many seconds of the run's budget are left. None: the run has no budget."""
    if is_waited_for(context.run):
        return None
    record = context.instance.get_run_record_by_id(context.run_id)
    begun = record.start_time if record and record.start_time else time.time()
    return begun + settings.current().run_seconds - time.time()


def hand_over(context: dg.OpExecutionContext, pool: Engine, job: Job, why: str) -> None:
    """Let the run end well, and have the relay launch another one that goes on with the job."""
    with transaction(pool) as connection:
        dispatch.hand_over(connection, job.job_id, context.run_id)
    done = job.total_items - job.open_items
    tell_end(
        context,
        f"job {job.job_key} goes on in another run: {why}; {done:,} of {job.total_items:,} items are done",
    )


def tell_end(context: dg.OpExecutionContext, said: str) -> None:
    """Say why a run that materializes nothing ends: in its log, and as a tag, which the list of runs shows."""
    context.log.info(said)
    context.instance.add_run_tags(context.run_id, {ENDED_TAG: said})


def tell_good_end(context: dg.OpExecutionContext, job: Job) -> None:
    """Take back what the tag says of an earlier run that this one repeats, for it has ended well."""
    if ENDED_TAG in context.run.tags:
        tell_end(context, f"job {job.job_key} is {job.status}")
