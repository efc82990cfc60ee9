"""Jobs worked by Dagster's own executor, in processes of their own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import jobs
from bulk_pipelines.engine.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict
from bulk_pipelines.lanes.definitions import failed_unless_planned
from bulk_pipelines_tests.dagster import echo_definitions


def echo_job() -> dg.JobDefinition:
    """What the step processes load by name."""
    return echo_definitions.defs.resolve_job_def("echo")


@pytest.fixture
def instance(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def submitted(engine: Engine, instance: dg.DagsterInstance, **params: Any) -> str:
    with transaction(engine) as connection:
        request = jobs.Request("echo", "me", params)
        job = jobs.submit(connection, Kinds([echo_definitions.KIND]), request).job
    instance.add_dynamic_partitions("echo_jobs", [job.job_key])
    return job.job_key


def run(
    instance: dg.DagsterInstance, url: str, job_key: str, *, in_process: bool = False, parent: str | None = None
) -> dg.JobExecutionResult:
    config = {
        "execution": {"config": {"in_process": in_process}},
        "resources": {"database": {"config": {"url": url}}},
    }
    return dg.execute_job(
        dg.reconstructable(echo_job),
        instance=instance,
        run_config=config,
        tags={"dagster/partition": job_key},
        reexecution_options=dg.ReexecutionOptions(parent_run_id=parent) if parent else None,
    )


def found(engine: Engine, job_key: str) -> Job:
    with transaction(engine) as connection:
        return jobs.find(connection, job_key)


def materialized(instance: dg.DagsterInstance, job_key: str) -> bool:
    return job_key in instance.get_materialized_partitions(dg.AssetKey("echoes"))


@pytest.mark.parametrize("in_process", [True, False])
def test_a_job_is_worked_and_materializes_its_partition(
    engine: Engine, instance: dg.DagsterInstance, database_url: str, in_process: bool
) -> None:
    job_key = submitted(engine, instance, items=[{}] * 40)
    with run(instance, database_url, job_key, in_process=in_process) as result:
        assert result.success
        job = found(engine, job_key)
        assert (job.status, job.succeeded_items) == (JobState.COMPLETED, 40)
        assert job.dagster_run_id == result.run_id
        assert materialized(instance, job_key)
        with transaction(engine) as connection:
            pids = connection.execute("SELECT DISTINCT (result->>'pid')::int FROM job_item").fetchall()
        assert ((os.getpid(),) in pids) == in_process


def test_a_small_job_leaves_lanes_out(engine: Engine, instance: dg.DagsterInstance, database_url: str) -> None:
    job_key = submitted(engine, instance, items=[{}])
    with run(instance, database_url, job_key, in_process=True) as result:
        assert result.success
        steps = {event.step_key for event in result.all_events if event.event_type_value == "STEP_SUCCESS"}
        assert steps == {"echoes.plan", "echoes.lane_1", "echoes.finish"}


def test_a_killed_step_is_done_again(engine: Engine, instance: dg.DagsterInstance, database_url: str) -> None:
    job_key = submitted(engine, instance, items=[{}, {"do": "die"}, {}, {}, {}, {}])
    with run(instance, database_url, job_key) as result:
        assert result.success
    job = found(engine, job_key)
    assert (job.status, job.succeeded_items) == (JobState.COMPLETED, 6)


def test_waiting_retries_free_the_process(engine: Engine, instance: dg.DagsterInstance, database_url: str) -> None:
    job_key = submitted(engine, instance, items=[{"do": "retry"}, {}])
    with run(instance, database_url, job_key, in_process=True) as result:
        assert result.success
        assert [e for e in result.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]
    assert found(engine, job_key).succeeded_items == 2


def test_a_buried_item_fails_the_run_for_good_and_running_it_again_redrives(
    engine: Engine, instance: dg.DagsterInstance, database_url: str
) -> None:
    job_key = submitted(engine, instance, items=[{"do": "bury"}])
    with run(instance, database_url, job_key, in_process=True) as result:
        assert not result.success
        first = instance.get_run_by_id(result.run_id)
        assert first is not None
        assert first.tags["dagster/max_retries"] == "0"
        failures = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
        assert "cannot be done" in str(failures[0])
        assert not [e for e in result.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]
    assert found(engine, job_key).status is JobState.FAILED
    assert not materialized(instance, job_key)

    with transaction(engine) as connection:
        connection.execute("CREATE TABLE healed ()")
    with run(instance, database_url, job_key, in_process=True, parent=first.run_id) as again:
        assert again.success
    job = found(engine, job_key)
    assert (job.status, job.dlq_items, job.succeeded_items) == (JobState.COMPLETED, 0, 1)
    assert materialized(instance, job_key)


def test_a_job_that_cannot_be_planned_fails_with_its_reason(
    engine: Engine, instance: dg.DagsterInstance, database_url: str
) -> None:
    job_key = submitted(engine, instance, refuse=True)
    with run(instance, database_url, job_key, in_process=True) as result:
        assert not result.success
    job = found(engine, job_key)
    assert (job.status, job.last_error) == (JobState.FAILED, "source: is no good")


@pytest.mark.parametrize("how", ["pause", "cancel"])
def test_a_job_that_may_not_run_materializes_nothing_and_is_no_failure(
    engine: Engine, instance: dg.DagsterInstance, database_url: str, how: str
) -> None:
    job_key = submitted(engine, instance, items=[{}] * 4)
    if how == "cancel":
        jobs.cancel(engine, job_key)
    else:
        with transaction(engine) as connection:
            jobs.pause(connection, job_key)
    with run(instance, database_url, job_key, in_process=True) as result:
        assert result.success
    assert not materialized(instance, job_key)
    assert found(engine, job_key).succeeded_items == 0


def test_a_plan_that_an_orphan_of_an_earlier_try_has_finished_is_no_failure(engine: Engine) -> None:
    with transaction(engine) as connection:
        request = jobs.Request("echo", "me", {"items": [{}]})
        stale = jobs.submit(connection, Kinds([echo_definitions.KIND]), request).job
        jobs.start(connection, stale.job_key)
    echo_definitions.plan(engine, stale)
    with pytest.raises(Conflict) as met:
        echo_definitions.plan(engine, stale)
    job = failed_unless_planned(engine, stale, met.value)
    assert (job.status, job.total_items) == (JobState.RUNNING, 1)
