"""One job worked by a process of its own, as a run of the installation's Dagster: what `bulk import` starts."""

import sys

import dagster as dg

from bulk_pipelines.dagster_resources import Database
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.definitions import defs, launched
from bulk_pipelines.engine import dispatch, jobs
from bulk_pipelines.lanes.definitions import BUDGET_TAG, UNLIMITED, partitions


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


if __name__ == "__main__":
    sys.exit(not run_here(sys.argv[1]))
