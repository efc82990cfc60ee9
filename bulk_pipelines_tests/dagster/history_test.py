"""Retention of what Dagster keeps: partition keys, runs and ticks that are old go, in bounded pieces."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, InstigatorType, TickData, TickStatus
from sqlalchemy import Engine

from bulk_pipelines.orchestration import history
from bulk_pipelines_tests.dagster import echo_definitions
from bulk_pipelines_tests.dagster.passes import execute, silent_job


def test_old_partition_keys_of_finished_jobs_go(
    engine: Engine, database_url: str, instance: dg.DagsterInstance
) -> None:
    job = silent_job(engine)
    gone = [f"J2020{n:04}_000001" for n in range(5_010)]
    instance.add_dynamic_partitions("echo_jobs", [*gone, job.job_key])
    assert execute(instance, database_url, "prune", dry_run=True)["partition keys"] == 11
    assert execute(instance, database_url, "prune", dry_run=False)["partition keys"] == 11
    left = instance.get_dynamic_partitions("echo_jobs")
    assert len(left) == 5_000
    assert job.job_key in left


def test_old_runs_go_with_what_they_said(engine: Engine, database_url: str, instance: dg.DagsterInstance) -> None:
    """Runs that are not over stay, however old they are."""
    job = silent_job(engine)
    definition = echo_definitions.defs.resolve_job_def("echo")
    folders = {}
    for status in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED):
        run = instance.create_run_for_job(definition, status=status, tags={"dagster/partition": job.job_key})
        folder = Path(instance.storage_directory()) / run.run_id / "compute_logs"
        folder.mkdir(parents=True)
        folders[status] = folder.parent
        (folder / "plan.out").write_text("hello")
    fresh = execute(instance, database_url, "prune", dry_run=True)
    assert fresh["Dagster runs"] == 0
    with closing(sqlite3.connect(Path(instance.root_directory) / "history" / "runs.db")) as runs, runs:
        runs.execute("UPDATE runs SET update_timestamp = datetime('now', '-31 days')")
    assert execute(instance, database_url, "prune", dry_run=True)["Dagster runs"] == 3, "the first dry run, too"
    assert all(folder.exists() for folder in folders.values())
    assert execute(instance, database_url, "prune", dry_run=False)["Dagster runs"] == 3
    left = [run.status for run in instance.get_runs(dg.RunsFilter(job_name="echo"))]
    assert left == [dg.DagsterRunStatus.STARTED]
    assert [status for status, folder in folders.items() if folder.exists()] == left


def test_old_ticks_go_in_bounded_pieces(
    engine: Engine, database_url: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ticks belong to a sensor that is there no more: nothing else would remove them."""
    monkeypatch.setattr(history, "TICKS_AT_A_TIME", 4)
    origin = RemoteInstigatorOrigin(
        RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("gone"), "__repository__"), "a_sensor"
    )
    sensor = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.STOPPED)
    instance.add_instigator_state(sensor)
    for days in [0.1, 29, *range(31, 61)]:
        instance.create_tick(
            TickData(
                origin.get_id(),
                "a_sensor",
                InstigatorType.SENSOR,
                TickStatus.SKIPPED,
                time.time() - days * 86_400,
                selector_id=sensor.selector_id,
            )
        )
    assert execute(instance, database_url, "prune", dry_run=True)["Dagster ticks"] == 30
    assert len(instance.get_ticks(origin.get_id(), sensor.selector_id)) == 32
    assert execute(instance, database_url, "prune", dry_run=False)["Dagster ticks"] == 30
    assert len(instance.get_ticks(origin.get_id(), sensor.selector_id)) == 2
