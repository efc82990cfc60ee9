"""Runs of a job whose items say what is done with them."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines_tests.dagster import echo_definitions

BY_THE_RELAY = {"bulk/launch": "0"}
NO_BUDGET = {"bulk/run_budget": "unlimited"}


def echo_job() -> dg.JobDefinition:
    """What the step processes load by name."""
    return echo_definitions.defs.resolve_job_def("echo")


def submitted(engine: Engine, instance: dg.DagsterInstance, **params: Any) -> str:
    with transaction(engine) as connection:
        request = submission.Request("echo", "me", params)
        job = submission.submit(connection, Kinds([echo_definitions.KIND]), request).job
    instance.add_dynamic_partitions("echo_jobs", [job.job_key])
    return job.job_key


def run(
    instance: dg.DagsterInstance,
    url: str,
    job_key: str,
    *,
    in_process: bool = False,
    parent: str | None = None,
    tags: Mapping[str, str] | None = None,
    steps: Sequence[str] | None = None,
) -> dg.JobExecutionResult:
    config = {
        "execution": {"config": {"in_process": in_process}},
        "resources": {"database": {"config": {"url": url}}},
    }
    return dg.execute_job(
        dg.reconstructable(echo_job),
        instance=instance,
        run_config=config,
        tags={"dagster/partition": job_key, **(tags or {})},
        reexecution_options=dg.ReexecutionOptions(parent_run_id=parent, step_selection=steps or []) if parent else None,
    )


def found(engine: Engine, job_key: str) -> Job:
    with transaction(engine) as connection:
        return jobs.find(connection, job_key)


def materialized(instance: dg.DagsterInstance, job_key: str) -> bool:
    return job_key in instance.get_materialized_partitions(dg.AssetKey("echoes"))
