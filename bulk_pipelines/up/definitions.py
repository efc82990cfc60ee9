"""What a command does in a process of its own, because it needs Dagster: one job worked as a run of the installation's
Dagster, for `bulk import` and its like; one pass of `bulk sweep`, `bulk finalize` or `bulk prune`."""

import json
import sys

import dagster as dg

from bulk_pipelines import settings
from bulk_pipelines.dagster_resources import Database
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.definitions import defs, launched, passes
from bulk_pipelines.engine import dispatch, jobs
from bulk_pipelines.errors import BulkError
from bulk_pipelines.lanes.definitions import partitions
from bulk_pipelines.lanes.runs.definitions import BUDGET_TAG, UNLIMITED

PASSES = ("sweep", "finalize", "prune")


def asset_job(name: str) -> dg.JobDefinition:
    """What the step processes load."""
    return defs.resolve_job_def(name)


def run_here(job_key: str) -> bool:
    """Work the job in this process; whether the run succeeded. The relay leaves it alone: its run has begun."""
    with transaction(Database().engine) as connection:
        job = jobs.find(connection, job_key)
        dispatch.begun(connection, job.job_id)
    pipeline = next(each.pipeline for each in launched if each.pipeline.kind.name == job.kind)
    name = partitions(job.kind).name
    assert name is not None
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions(name, [job_key])
        with dg.execute_job(
            dg.build_reconstructable_job("bulk_pipelines.up.definitions", asset_job.__name__, (job.kind,)),
            instance=instance,
            run_config=pipeline.run_config(job),
            tags={
                "dagster/partition": job_key,
                "bulk/owner": job.owner,
                "bulk/origin": job.origin,
                BUDGET_TAG: UNLIMITED,
            },
        ) as result:
            return result.success


Row = tuple[str, int, str | None]
"""What was done, how often, and why it could not be."""


def pass_here(name: str, dry_run: bool) -> list[Row]:
    """The same passes as the schedules run."""
    pool = Database().engine
    with dg.DagsterInstance.get() as instance:
        match name:
            case "sweep":
                return [(*each, None) for each in passes.sweep(pool, instance).items()]
            case "finalize":
                return [(*each, None) for each in passes.finalize(pool).items()]
            case _:
                pruned = passes.prune(pool, instance, settings.current(), dry_run)
                return [(each.name, each.count, each.problem) for each in pruned]


def answer(name: str, dry_run: bool) -> str:
    """For the command that started this process."""
    try:
        return json.dumps({"rows": pass_here(name, dry_run)})
    except BulkError as error:
        return json.dumps({"error": str(error)})


if __name__ == "__main__":
    wanted, *options = sys.argv[1:]
    if wanted in PASSES:
        sys.stdout.write(answer(wanted, "--dry-run" in options) + "\n")
    else:
        sys.exit(not run_here(wanted))
