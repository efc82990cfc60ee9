"""Passes of maintenance in Dagster, and jobs and runs for them to look after."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.dagster import echo_definitions


def execute(instance: dg.DagsterInstance, url: str, name: str, **config: Any) -> dict[str, Any]:
    """Run one of the maintenance jobs, and return what it says it did."""
    job = echo_definitions.defs.resolve_job_def(name)
    run_config: dict[str, Any] = {"resources": {"database": {"config": {"url": url}}}}
    if config:
        run_config["ops"] = {f"{name}_pass": {"config": config}}
    result = job.execute_in_process(instance=instance, run_config=run_config)
    (event,) = [event for event in result.all_events if event.event_type_value == "STEP_OUTPUT"]
    return {key: value.value for key, value in event.step_output_data.metadata.items()}


def silent_job(engine: Engine) -> Job:
    """Make a job that a run began to work a long while ago."""
    with transaction(engine) as connection:
        job = submission.submit(connection, Kinds([echo_definitions.KIND]), submission.Request("echo", "me", {})).job
        jobs.start(connection, job.job_key, "a run")
        connection.execute(
            "UPDATE job SET heartbeat_at = now() - interval '1 hour', created_at = now() - interval '2 hours'"
        )
        return jobs.find(connection, job.job_key)


def run_of(instance: dg.DagsterInstance, job: Job, status: dg.DagsterRunStatus) -> dg.DagsterRun:
    definition = echo_definitions.defs.resolve_job_def("echo")
    return instance.create_run_for_job(definition, status=status, tags={"dagster/partition": job.job_key})


def state(engine: Engine, job: Job) -> tuple[JobState, bool]:
    with transaction(engine) as connection:
        row = connection.execute("SELECT status, run_wanted FROM job WHERE job_id = %s", [job.job_id]).fetchone()
    assert row is not None
    return JobState(row[0]), row[1]


def began_long_ago(instance: dg.DagsterInstance, *dead: dg.DagsterRun) -> None:
    with closing(sqlite3.connect(Path(instance.root_directory) / "history" / "runs.db")) as runs, runs:
        for run in dead:
            runs.execute(
                "UPDATE runs SET create_timestamp = datetime('now', '-1 day'), start_time = unixepoch() - 86400"
                " WHERE run_id = ?",
                [run.run_id],
            )
