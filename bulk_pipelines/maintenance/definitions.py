"""The schedules that keep the system honest by itself, and what they need of Dagster's knowledge."""

import math
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import end
from bulk_pipelines.engine.jobs.dispatch import Launched
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.maintenance import retention, sweep
from bulk_pipelines.maintenance.control.definitions import CONTROLS, controls
from bulk_pipelines.maintenance.lost_runs import Action, LossLimits, RunSeen, RunState, Unended
from bulk_pipelines.maintenance.retention import Part, Pruned, Told
from bulk_pipelines.orchestration import history, terminations
from bulk_pipelines.orchestration.pipeline import Launchable
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.runs import BY_ASSET
from bulk_pipelines.settings import Settings

RUNS_LOOKED_AT = 20
UNENDED_LOOKED_AT = 1_000
PASSES = ("sweep", "finalize", "prune")

STATES = {
    dg.DagsterRunStatus.QUEUED: RunState.WAITING,
    dg.DagsterRunStatus.NOT_STARTED: RunState.WAITING,
    dg.DagsterRunStatus.MANAGED: RunState.WAITING,
    dg.DagsterRunStatus.STARTING: RunState.WORKING,
    dg.DagsterRunStatus.STARTED: RunState.WORKING,
    dg.DagsterRunStatus.CANCELING: RunState.WORKING,
    dg.DagsterRunStatus.SUCCESS: RunState.ENDED,
    dg.DagsterRunStatus.FAILURE: RunState.FAILED,
    dg.DagsterRunStatus.CANCELED: RunState.CANCELLED,
}

IsDue = Callable[[Engine, dg.DagsterInstance], bool]
NOTHING_TO_SWEEP = "nothing to do: no lease has run out, no job waits for its end, no launch and no run was lost"
NOTHING_TO_END = "nothing to do: no job waits for its end, none has to be wound up"

TOLD = {
    Action.END_RUN: "runs ended that nobody was behind",
    Action.WANT_RUN: "jobs to be launched again",
    Action.PAUSE: "jobs paused, their run was terminated",
    Action.CANCEL: "jobs cancelled, their run was terminated",
    Action.FAIL: "jobs failed, their runs kept dying",
}


class PruneConfig(dg.Config):
    dry_run: bool = Field(default=False, description="Only count what would go.")


@dataclass(frozen=True)
class WindUp:
    """How a slice winds up its jobs that ended before their time."""

    run_once: Callable[[Engine], int]
    """Winds them up, and returns how many."""
    is_due: Callable[[Engine], bool]
    """Whether there are any."""


@dataclass(frozen=True)
class Upkeep:
    """The passes, as schedules and commands run them. Each returns what it did, as counts by name."""

    kinds: Kinds
    parts: Sequence[Part] = ()
    """What has retention of its own in the slices, besides jobs and items."""
    endings: Sequence[WindUp] = ()
    brief: Sequence[str] = ()
    """Dagster's jobs that only submit. Their runs are over in minutes, as those of the passes are."""

    def sweep(self, pool: Engine, instance: dg.DagsterInstance) -> dict[str, int]:
        unended = self.unended(instance)
        swept = sweep.run_once(pool, self.kinds, random.random, runs_of(instance), unended, ender(instance), limits())
        return {
            "items retried": swept.rescued.retried,
            "items buried": swept.rescued.buried,
            "jobs ended": swept.ended_jobs,
            "jobs wound up": sum(each.run_once(pool) for each in self.endings),
            **{told: swept.lost.get(action, 0) for action, told in TOLD.items()},
        }

    def unended(self, instance: dg.DagsterInstance) -> list[Unended]:
        return unended_runs(instance, self.kinds, {*PASSES, *CONTROLS, *self.brief})

    def is_sweep_due(self, pool: Engine, instance: dg.DagsterInstance) -> bool:
        due = sweep.is_due(pool, runs_of(instance), self.unended(instance), limits())
        return due or any(each.is_due(pool) for each in self.endings)

    def is_finalize_due(self, pool: Engine, _: dg.DagsterInstance) -> bool:
        with transaction(pool) as connection:
            due = end.is_anything_due(connection)
        return due or any(each.is_due(pool) for each in self.endings)

    def finalize(self, pool: Engine) -> dict[str, int]:
        return {
            "jobs ended": len(end.run_once(pool, self.kinds)),
            "jobs wound up": sum(each.run_once(pool) for each in self.endings),
        }

    def prune(
        self,
        pool: Engine,
        instance: dg.DagsterInstance,
        chosen: Settings,
        dry_run: bool,
        told: Told = lambda _: None,
    ) -> list[Pruned]:
        return retention.run_once(pool, chosen, [*self.parts, *history_parts(instance, self.kinds)], dry_run, told)


def limits() -> LossLimits:
    return LossLimits(silence=settings.current().silent_seconds)


def history_parts(instance: dg.DagsterInstance, kinds: Kinds) -> list[Part]:
    """Return what goes of Dagster's own history."""

    def prune_keys(pool: Engine, chosen: Settings, dry_run: bool) -> int:
        def finished(keys: list[str]) -> set[str]:
            with transaction(pool) as connection:
                return retention.finished(connection, keys)

        return history.prune_keys(instance, kinds, finished, chosen.keep_partitions, dry_run)

    return [
        Part("partition keys", prune_keys),
        Part("Dagster runs", lambda _, chosen, dry: history.prune_runs(instance, chosen.keep_runs_days, dry)),
        Part("Dagster ticks", lambda _, chosen, dry: history.prune_ticks(instance, chosen.keep_ticks_days, dry)),
    ]


def upkeep(
    launchables: Sequence[Launchable],
    parts: Sequence[Part] = (),
    endings: Sequence[WindUp] = (),
    brief: Sequence[str] = (),
) -> Upkeep:
    return Upkeep(Kinds([each.pipeline.kind for each in launchables]), parts, endings, brief)


def maintenance(passes: Upkeep) -> dg.Definitions:
    chosen = settings.current()

    @dg.op(name="sweep_pass", description="Rescues expired leases, ends jobs, looks after lost launches and dead runs.")
    def sweep_op(context: dg.OpExecutionContext, database: Database) -> None:
        context.add_output_metadata(passes.sweep(database.engine, context.instance))

    @dg.op(name="finalize_pass", description="Ends the jobs whose last worker died before it could.")
    def finalize_op(context: dg.OpExecutionContext, database: Database) -> None:
        context.add_output_metadata(passes.finalize(database.engine))

    @dg.op(
        name="prune_pass", description="Removes what is old and over, in bounded batches. With dry_run: only counts."
    )
    def prune_op(context: dg.OpExecutionContext, database: Database, config: PruneConfig) -> None:
        pruned = passes.prune(database.engine, context.instance, settings.current(), config.dry_run)
        said = {each.name: each.count for each in pruned} | {"dry_run": config.dry_run}
        problems = {each.name: each.problem for each in pruned if each.problem}
        if problems:
            raise dg.Failure("; ".join(f"{name}: {problem}" for name, problem in problems.items()), metadata=said)
        context.add_output_metadata(said)

    # The launchpad opens with this where there is something to choose.
    examples = {"prune": {"ops": {prune_op.name: {"config": {"dry_run": False}}}}}
    jobs = {
        name: dg.GraphDefinition(name=name, node_defs=[op], description=op.description).to_job(
            executor_def=dg.in_process_executor, config=examples.get(name)
        )
        for name, op in zip(PASSES, (sweep_op, finalize_op, prune_op), strict=True)
    }
    schedules = [
        when_due(jobs["sweep"], f"*/{chosen.sweep_minutes} * * * *", passes.is_sweep_due, NOTHING_TO_SWEEP),
        when_due(jobs["finalize"], f"*/{chosen.finalize_minutes} * * * *", passes.is_finalize_due, NOTHING_TO_END),
        dg.ScheduleDefinition(
            name="prune_schedule",
            job=jobs["prune"],
            cron_schedule=f"17 {chosen.prune_hour} * * *",
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description=jobs["prune"].description,
        ),
    ]
    return dg.Definitions.merge(controls(), dg.Definitions(jobs=list(jobs.values()), schedules=schedules))


def when_due(job: dg.JobDefinition, cron: str, is_due: IsDue, nothing: str) -> dg.ScheduleDefinition:
    """Return a schedule that launches a pass only if there is something to do: hundreds of runs a day that did nothing
    would hide the others in the list of runs."""

    @dg.schedule(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"{job.description} Without anything to do there is no run.",
    )
    def schedule(context: dg.ScheduleEvaluationContext, database: Database) -> dg.RunRequest | dg.SkipReason:
        return dg.RunRequest() if is_due(database.engine, context.instance) else dg.SkipReason(nothing)

    return schedule


def runs_of(instance: dg.DagsterInstance) -> sweep.RunsOf:
    def seen(job: Launched) -> list[RunSeen]:
        filters = dg.RunsFilter(tags={"dagster/partition": job.job_key})
        records = instance.get_run_records(filters, limit=RUNS_LOOKED_AT)
        said = last_words(instance, records[0].dagster_run) if records else ""
        return [as_seen(record, "" if number else said) for number, record in enumerate(records)]

    return seen


def unended_runs(instance: dg.DagsterInstance, kinds: Kinds, brief: Collection[str]) -> list[Unended]:
    """Return the runs that are at work as far as Dagster knows. Runs that do not belong to this project are left
    out."""
    working = [status for status, state in STATES.items() if state is RunState.WORKING]
    found = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=working), limit=UNENDED_LOOKED_AT, ascending=True):
        run = record.dagster_run
        key = run.tags.get("dagster/partition")
        begun = record.start_time or record.create_timestamp.timestamp()
        if key and run.job_name in {*kinds, BY_ASSET}:
            found.append(Unended(run.run_id, key, time.time() - begun))
        elif run.job_name in brief:
            found.append(Unended(run.run_id, None, time.time() - begun))
    return found


def as_seen(record: dg.RunRecord, said: str) -> RunSeen:
    run = record.dagster_run
    return RunSeen(
        run.run_id,
        STATES[run.status],
        seconds_since_end=time.time() - record.end_time if record.end_time else math.inf,
        retry_expected={"true": True, "false": False}.get(run.tags.get("dagster/will_retry", "")),
        last_words=said,
        cancels=terminations.event_of(run) is JobEvent.CANCEL,
    )


def last_words(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return why a run failed: the error of the step that failed, else what the end of the run says."""
    if run.status is not dg.DagsterRunStatus.FAILURE:
        return ""
    for kind in (dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE):
        for record in instance.get_records_for_run(run.run_id, of_type=kind, limit=1, ascending=False).records:
            event = record.event_log_entry.dagster_event
            data = event.event_specific_data if event else None
            error = getattr(data, "error", None)
            found = error.message if error else event.message if event else None
            if found:
                return " ".join(found.split())[:500]
    return ""


def ender(instance: dg.DagsterInstance) -> sweep.EndRun:
    def end(run_id: str, reason: str) -> None:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(run, reason)

    return end
