"""The steps of a run: they lease the items of a job from the database.

The lanes are fixed steps, because dynamic steps lose work when a crashed run is retried; `plan` wakes only as many
lanes as the job needs. Steps pass nothing on but "done": what they need is in PostgreSQL. `finish` believes the
database and not the steps: it works whatever the lanes left before it calls anything done.
"""

from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, Signature
from typing import Any

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch, jobs, telling
from bulk_pipelines.engine.jobs import end as finish
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.measures import recording
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.drain import Drained, End
from bulk_pipelines.engine.worker.runner import Worker, worker_name
from bulk_pipelines.engine.worker.work import Slice
from bulk_pipelines.errors import BulkError, Unavailable
from bulk_pipelines.orchestration.failures import failure, has_failed
from bulk_pipelines.orchestration.pipeline import Pipeline
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.runs import hand_over, seconds_left, taken_up, tell_end, tell_good_end
from bulk_pipelines.orchestration.terminations import heeding
from bulk_pipelines.settings import addresses
from bulk_pipelines.telemetry import spans

LANE = "lane_"
FAILED = "failed"
"""The output of a plan whose job has failed."""

STEP_RETRIES = dg.RetryPolicy(max_retries=5, delay=3, backoff=dg.Backoff.LINEAR, jitter=dg.Jitter.PLUS_MINUS)
"""The retries of a step whose process was killed, or that lost the database for longer than it waits by itself."""

LEAST_SECONDS = 3.0
"""The least seconds that a lane works, so that a run gets on even if its budget was spent before its lanes had
started."""

MOST_WAITS = 1_000
SHORTEST_WAIT = 1.0


def graph(pipeline: Pipeline, lanes: int, stands_on: Sequence[str] = ()) -> Callable[..., object]:
    """Return the steps, to be given to dg.graph_asset. `stands_on` names the asset's `ins`, which only put it in order
    behind other assets and pass no data."""
    plan = plan_op(pipeline, lanes, stands_on)
    lane = lane_op(pipeline)
    end = finish_op(pipeline, lanes)

    def composed(**ins: object) -> object:
        failed, *wanted = plan.alias("plan")(**ins)
        done = [lane.alias(lane_name(number))(start) for number, start in enumerate(wanted, 1)]
        return end.alias("finish")([failed, *done])

    return with_parameters(composed, stands_on)


def with_parameters(composed: Callable[..., object], names: Sequence[str]) -> Callable[..., object]:
    """Give the function a signature with these names, because Dagster reads a graph's inputs from it."""
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    composed.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return composed


def lane_name(number: int) -> str:
    return f"{LANE}{number}"


def plan_op(pipeline: Pipeline, lanes: int, stands_on: Sequence[str]) -> dg.OpDefinition:
    """Return the step that plans the job, and wakes as many lanes as its items are worth. If the job fails, it wakes
    the last step alone, which says why: a step that fails has one red line for each step that depends on it."""

    @dg.op(
        name=f"{pipeline.kind.name}_plan",
        ins={name: dg.In(dg.Nothing) for name in stands_on},
        out={
            name: dg.Out(dg.Nothing, is_required=False)
            for name in (FAILED, *(lane_name(number) for number in range(1, lanes + 1)))
        },
        retry_policy=STEP_RETRIES,
        required_resource_keys=pipeline.resource_keys,
        description="Lands and cuts the work into items, and wakes as many lanes as they need.",
    )
    def plan(context: dg.OpExecutionContext) -> Iterator[dg.Output[None]]:
        database: Database = context.resources.database
        job = taken_up(context, database.engine, pipeline.kind.name)
        if has_failed(job):
            yield dg.Output(None, FAILED)
            return
        if job.status is not JobState.RUNNING:
            tell_end(context, f"job {job.job_key} is {job.status}: nothing to do")
            return
        if job.planned_at is None:
            try:
                job = planned(context, pipeline, database.engine, job)
            except Unavailable:
                raise  # this may pass: the step is tried again
            except BulkError as error:
                job = failed_unless_planned(database.engine, job, error)
                if job.status is JobState.CANCELLED:
                    tell_end(context, f"job {job.job_key} was cancelled while it was planned")
                    return
                if job.planned_at is None:
                    yield dg.Output(None, FAILED)
                    return
        recording.of(database.engine).write()
        wanted = pipeline.lanes_for(job, lanes)
        context.log.info(f"job {job.job_key}: {counted(job.open_items, 'item')} for {counted(wanted, 'lane')}")
        for number in range(1, wanted + 1):
            yield dg.Output(None, lane_name(number))

    return plan


def planned(context: dg.OpExecutionContext, pipeline: Pipeline, pool: Engine, job: Job) -> Job:
    """Plan the job, which beats meanwhile and stops if a person terminates the run. Return it as it is then."""
    silence = settings.current().silent_seconds
    with (
        heeding(context, pool),
        dispatch.beating(pool, job.job_id, silence),
        telling.about(job, run_id=context.run_id, step="plan"),
    ):
        return pipeline.plan(pool, job)


def failed_unless_planned(pool: Engine, job: Job, error: BulkError) -> Job:
    """Fail the job, unless it has been planned or cancelled. The orphan of an earlier try may have planned the job
    while this try was at it: then all is well."""
    with transaction(pool) as connection:
        found = jobs.lock(connection, job.job_key)
        if found.planned_at is not None or found.finished:
            return found
        return jobs.fail(connection, job.job_key, str(error))


def lane_op(pipeline: Pipeline) -> dg.OpDefinition:
    """Return the step that leases items and works them until none is open."""

    @dg.op(
        name=f"{pipeline.kind.name}_lane",
        ins={"start": dg.In(dg.Nothing)},
        out=dg.Out(dg.Nothing),
        retry_policy=STEP_RETRIES,
        required_resource_keys=pipeline.resource_keys,
        description="Leases items and works them, slice after slice, until none is left.",
    )
    def lane(context: dg.OpExecutionContext) -> None:
        database: Database = context.resources.database
        job = taken_up(context, database.engine, pipeline.kind.name)
        drained = worked(context, pipeline, database.engine, job, at_least=LEAST_SECONDS)
        if drained.end is End.WAITING:
            raise wait_for_retries(drained)

    return lane


def finish_op(pipeline: Pipeline, lanes: int) -> dg.OpDefinition:
    """Return the step that works what the lanes left, ends the job, and shows what came of it."""

    @dg.op(
        name=f"{pipeline.kind.name}_finish",
        ins={"lanes": dg.In(dg.Nothing)},
        out=dg.Out(dg.Nothing, is_required=False),
        retry_policy=STEP_RETRIES,
        required_resource_keys=pipeline.resource_keys,
        description="Works what the lanes left, ends the job, and says what it came to.",
    )
    def end(context: dg.OpExecutionContext) -> Iterator[dg.Output[None]]:
        database: Database = context.resources.database
        job = taken_up(context, database.engine, pipeline.kind.name)
        if finish.is_due(job):
            job = finish.attempt_due(database.engine, pipeline.kind_of(context), job.job_key)
        if job.status is JobState.RUNNING:
            if lacking := what_lacks(context.run, job, pipeline.lanes_for(job, lanes)):
                return hand_over(context, database.engine, job, lacking)
            drained = worked(context, pipeline, database.engine, job)
            if drained.end is End.WAITING:
                raise wait_for_retries(drained)
            with transaction(database.engine) as connection:
                job = jobs.find(connection, job.job_key)
            if drained.end is End.OUT_OF_TIME and job.status is JobState.RUNNING:
                spent = f"this one has spent its {settings.current().run_seconds:,} seconds"
                return hand_over(context, database.engine, job, spent)
        if job.status in (JobState.FAILED, JobState.CANCELLED):
            pipeline.wind_up(database.engine, job.job_key)
        if has_failed(job):
            raise failure(context, database.engine, job, reported(pipeline, database.engine, job))
        if job.status in (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS):
            tell_good_end(context, job)
            yield dg.Output(None, metadata=reported(pipeline, database.engine, job))
        else:
            tell_end(context, f"job {job.job_key} is {job.status}: nothing is materialized")

    return end


def reported(pipeline: Pipeline, pool: Engine, job: Job) -> dict[str, Any]:
    """Return what the kind shows of its job, with a link to the job's page."""
    page = dg.MetadataValue.url(f"{addresses.console(settings.current())}/console/jobs/{job.job_key}")
    return {**pipeline.report(pool, job), "console": page}


def worked(
    context: dg.OpExecutionContext, pipeline: Pipeline, pool: Engine, job: Job, at_least: float = 0.0
) -> Drained:
    """Work the job's items until none is open, the run's budget is spent, or only items that wait for a retry are
    left."""
    kinds = {pipeline.kind.name: pipeline.kind_of(context)}
    left = seconds_left(context)
    if left is not None:
        left = max(left, at_least)
        if left <= 0:
            return Drained(End.OUT_OF_TIME, 0)
    with transaction(pool) as connection:
        dispatch.begun(connection, job.job_id, context.run_id)

    def tell(slice_: Slice) -> None:
        tally = slice_.tally
        worked = counted(tally.total, "item")
        context.log.debug(f"{worked} in {slice_.seconds:.1f} s: {tally.done} done, {tally.failed} failed")

    # The worker's name is kept with the items it buries, so it names the run.
    name = f"{context.run_id}:{worker_name()}"
    with (
        heeding(context, pool),
        dispatch.beating(pool, job.job_id, settings.current().silent_seconds),
        telling.about(job, run_id=context.run_id, step=context.op_handle.name),
        spans.span("lane"),
        Worker(pool, kinds, job, name=name) as worker,
    ):
        drained = drain.drain(worker, seconds=left, patient=False, on_slice=tell)
    spans.flush()  # the process of a step ends without ceremony
    context.log.info(f"{counted(drained.worked, 'item')} worked here, then {drained.end}")
    return drained


def wait_for_retries(drained: Drained) -> dg.RetryRequested:
    """Ask Dagster to try the step again when the next item is due, and to free the process until then."""
    return dg.RetryRequested(max_retries=MOST_WAITS, seconds_to_wait=max(drained.seconds_to_next or 0.0, SHORTEST_WAIT))


def has_no_lanes(run: dg.DagsterRun) -> bool:
    """Whether the run is executed again from where it failed, and has no lanes because its last step failed. Then one
    process would work all that is left."""
    steps = run.step_keys_to_execute
    return steps is not None and not any(step.rpartition(".")[2].startswith(LANE) for step in steps)


def what_lacks(run: dg.DagsterRun, job: Job, wanted: int) -> str | None:
    """Say which steps the job needs that the run does not have, because it was executed again from where it failed."""
    if job.planned_at is None:
        return "it is to be planned, and this run does not plan"
    if wanted > 1 and has_no_lanes(run):
        return "it is work for several lanes, and this run has none"
    return None
