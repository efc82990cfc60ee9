"""The schedules that keep the system honest by itself, and what Dagster knows that they need."""

import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.dagster_resources import Database
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import finish
from bulk_pipelines.engine.dispatch import Launched
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.lanes.definitions import Launchable, partitions
from bulk_pipelines.maintenance import prune, sweep
from bulk_pipelines.maintenance.lost_runs import LossLimits, RunSeen, RunState
from bulk_pipelines.maintenance.prune import Part, Retention

RUNS_LOOKED_AT = 20
RUNS_AT_A_TIME = 100
KEYS_AT_A_TIME = 1_000

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


class PruneConfig(dg.Config):
    dry_run: bool = False


def maintenance(
    launchables: Sequence[Launchable], parts: Sequence[Part] = (), endings: Sequence[Callable[[Engine], int]] = ()
) -> dg.Definitions:
    """`parts` are what the slices retire besides their jobs; `endings` wind up their jobs that ended before their time,
    and say how many."""
    kinds = Kinds([each.pipeline.kind for each in launchables])
    chosen = settings.current()

    @dg.op(name="sweep_pass", description="Rescues expired leases, ends jobs, looks after lost launches and dead runs.")
    def sweep_op(context: dg.OpExecutionContext, database: Database) -> None:
        swept = sweep.run_once(
            database.engine, kinds, random.random, runs_of(context.instance), ender(context.instance), LossLimits()
        )
        wound_up = sum(wind_up(database.engine) for wind_up in endings)
        context.add_output_metadata(
            {
                "jobs_wound_up": wound_up,
                "items_retried": swept.rescued.retried,
                "items_buried": swept.rescued.buried,
                "jobs_ended": swept.ended_jobs,
                **{str(action): count for action, count in swept.lost.items()},
            }
        )

    @dg.op(name="finalize_pass", description="Ends the jobs whose last worker died before it could.")
    def finalize_op(context: dg.OpExecutionContext, database: Database) -> None:
        ended = finish.run_once(database.engine, kinds)
        context.add_output_metadata({"jobs_ended": len(ended)})

    @dg.op(
        name="prune_pass", description="Removes what is old and over, in bounded batches. With dry_run: only counts."
    )
    def prune_op(context: dg.OpExecutionContext, database: Database, config: PruneConfig) -> None:
        own = [
            Part("partition keys", lambda pool, _, dry: prune_keys(context.instance, pool, kinds, chosen, dry)),
            Part("Dagster runs", lambda _, __, dry: prune_runs(context.instance, chosen.keep_runs_days, dry)),
        ]
        retention = Retention(chosen.keep_items_days, chosen.keep_jobs_days)
        pruned = prune.run_once(database.engine, retention, [*parts, *own], config.dry_run)
        context.add_output_metadata({each.name: each.count for each in pruned} | {"dry_run": config.dry_run})

    jobs = {
        name: dg.GraphDefinition(name=name, node_defs=[op], description=op.description).to_job(
            executor_def=dg.in_process_executor
        )
        for name, op in {"sweep": sweep_op, "finalize": finalize_op, "prune": prune_op}.items()
    }
    schedules = [
        scheduled(jobs["sweep"], f"*/{chosen.sweep_minutes} * * * *"),
        scheduled(jobs["finalize"], f"*/{chosen.finalize_minutes} * * * *"),
        scheduled(jobs["prune"], "17 3 * * *"),
    ]
    return dg.Definitions(jobs=list(jobs.values()), schedules=schedules)


def scheduled(job: dg.JobDefinition, cron: str) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=job.description,
    )


def runs_of(instance: dg.DagsterInstance) -> sweep.RunsOf:
    def seen(job: Launched) -> list[RunSeen]:
        filters = dg.RunsFilter(job_name=job.kind, tags={"dagster/partition": job.job_key})
        records = instance.get_run_records(filters, limit=RUNS_LOOKED_AT)
        said = last_words(instance, records[0].dagster_run) if records else ""
        return [as_seen(record, "" if number else said) for number, record in enumerate(records)]

    return seen


def as_seen(record: dg.RunRecord, said: str) -> RunSeen:
    run = record.dagster_run
    return RunSeen(
        run.run_id,
        STATES[run.status],
        seconds_since_end=time.time() - record.end_time if record.end_time else 0.0,
        retry_expected=run.tags.get("dagster/will_retry") == "true",
        last_words=said,
    )


def last_words(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Why a run failed: the error of the step that did, else what its own end says."""
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


def prune_keys(
    instance: dg.DagsterInstance, pool: Engine, kinds: Kinds, chosen: settings.Settings, dry_run: bool
) -> int:
    """The oldest keys beyond what an asset keeps, of jobs that are over. The database still has their jobs."""
    total = 0
    for kind in kinds:
        name = partitions(kind).name
        assert name is not None
        keys = sorted(instance.get_dynamic_partitions(name))
        with transaction(pool) as connection:
            gone = prune.finished(connection, keys[: max(0, len(keys) - chosen.keep_partitions)])
        for key in () if dry_run else sorted(gone):
            instance.delete_dynamic_partition(name, key)
        total += len(gone)
    return total


def prune_runs(instance: dg.DagsterInstance, days: int, dry_run: bool) -> int:
    """Runs with all their events. Each one is its own deletion, so a pass can be cut short anywhere."""
    over = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    filters = dg.RunsFilter(statuses=over, updated_before=datetime.now(UTC) - timedelta(days=days))
    if dry_run:
        return instance.get_runs_count(filters)
    removed = 0
    while records := instance.get_run_records(filters, limit=RUNS_AT_A_TIME, ascending=True):
        for record in records:
            instance.delete_run(record.dagster_run.run_id)
        removed += len(records)
    return removed
