"""Jobs worked by Dagster's own executor, in processes of their own."""

import os

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch, jobs, submission
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict
from bulk_pipelines.orchestration.steps import failed_unless_planned
from bulk_pipelines_tests.dagster import echo_definitions
from bulk_pipelines_tests.dagster.pipeline.again_test import assert_ended_with
from bulk_pipelines_tests.scenes.echo_runs import BY_THE_RELAY, NO_BUDGET, echo_job, found, materialized, run, submitted


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


def test_a_job_that_cannot_be_planned_fails_with_its_reason(
    engine: Engine, instance: dg.DagsterInstance, database_url: str
) -> None:
    job_key = submitted(engine, instance, refuse=True)
    with run(instance, database_url, job_key, in_process=True) as result:
        assert not result.success
        (failed,) = [event for event in result.all_events if event.is_failure and event.step_key]
        said = failed.step_failure_data.user_failure_data
    assert failed.step_key == "echoes.finish", "there is one red line, and no step complains of another"
    assert said is not None
    assert said.description == f"job {job_key} failed: source: is no good"
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
    with run(instance, database_url, job_key, in_process=True, tags=BY_THE_RELAY) as result:
        assert result.success
        assert_ended_with(instance, result.run_id, "nothing to do")
    assert not materialized(instance, job_key)
    assert found(engine, job_key).succeeded_items == 0


@pytest.mark.long
def test_a_run_whose_budget_is_spent_ends_well_and_another_one_goes_on(
    engine: Engine, instance: dg.DagsterInstance, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One item takes longer than a run may, and is left where it is; with others before it."""
    monkeypatch.setenv("BULK_RUN_SECONDS", "10")
    job_key = submitted(engine, instance, items=[{}, {}, {"do": "last", "steps": 100}])
    with run(instance, database_url, job_key, in_process=True, tags=BY_THE_RELAY) as first:
        assert first.success
        assert_ended_with(instance, first.run_id, "goes on in another run: this one has spent its 10 seconds")
    assert not materialized(instance, job_key)
    job = found(engine, job_key)
    assert (job.status, job.succeeded_items, job.pending_items) == (JobState.RUNNING, 2, 1)
    with transaction(engine) as connection:
        (offer,) = dispatch.offers(connection, ["echo"], dispatch.DispatchLimits())
        assert offer.key == f"{job_key}:1"
        row = connection.execute(
            "SELECT attempt_count, (checkpoint->>'step')::int FROM job_item WHERE status = 'PENDING'"
        ).fetchone()
    assert row is not None
    attempts, checkpoint = row
    assert attempts == 0, "to be given back costs nothing"
    assert 0 < checkpoint < 100
    with run(instance, database_url, job_key, in_process=True, tags=BY_THE_RELAY | NO_BUDGET) as second:
        assert second.success
    assert found(engine, job_key).status is JobState.COMPLETED
    assert materialized(instance, job_key)
    with transaction(engine) as connection:
        done = connection.execute("SELECT result->'from' FROM job_item WHERE item_key = '00002'").fetchone()
    assert done == (checkpoint,), "it goes on where it was left"


def test_a_plan_that_an_orphan_of_an_earlier_try_has_finished_is_no_failure(engine: Engine) -> None:
    with transaction(engine) as connection:
        request = submission.Request("echo", "me", {"items": [{}]})
        stale = submission.submit(connection, Kinds([echo_definitions.KIND]), request).job
        jobs.start(connection, stale.job_key)
    echo_definitions.plan(engine, stale)
    with pytest.raises(Conflict) as met:
        echo_definitions.plan(engine, stale)
    job = failed_unless_planned(engine, stale, met.value)
    assert (job.status, job.total_items) == (JobState.RUNNING, 1)


def test_a_job_that_was_cancelled_while_it_was_planned_stays_cancelled(engine: Engine) -> None:
    with transaction(engine) as connection:
        request = submission.Request("echo", "me", {"items": [{}]})
        stale = submission.submit(connection, Kinds([echo_definitions.KIND]), request).job
        jobs.start(connection, stale.job_key)
    jobs.cancel(engine, stale.job_key)
    with pytest.raises(Conflict) as met:
        echo_definitions.plan(engine, stale)
    assert failed_unless_planned(engine, stale, met.value).status is JobState.CANCELLED


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({"dagster/partition": "J20200101_000009"}, "no job has the key 'J20200101_000009'"),
        ({"dagster/partition": "FOREIGN"}, "is of the kind other: launch other with it, not echo"),
        ({}, "partition: is missing: launch the run with the key of a job"),
        (
            {"dagster/asset_partition_range_start": "a", "dagster/asset_partition_range_end": "b"},
            "partition: is a range of keys: launch one run for each",
        ),
    ],
)
def test_a_run_that_names_no_job_of_its_kind_says_so_at_once(
    engine: Engine, instance: dg.DagsterInstance, database_url: str, tags: dict[str, str], said: str
) -> None:
    with transaction(engine) as connection:
        request = submission.Request("other", "me", {})
        foreign = submission.submit(connection, Kinds([Kind("other", echo_definitions.handle)]), request).job
    given = {name: foreign.job_key if value == "FOREIGN" else value for name, value in tags.items()}
    instance.add_dynamic_partitions("echo_jobs", sorted({"a", "b", *given.values()}))
    with dg.execute_job(
        dg.reconstructable(echo_job),
        instance=instance,
        run_config={
            "execution": {"config": {"in_process": True}},
            "resources": {"database": {"config": {"url": database_url}}},
        },
        tags=given,
    ) as result:
        assert not result.success
        (failed,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
        assert said in str(failed.step_failure_data.user_failure_data)
        assert not [event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
        ended = instance.get_run_by_id(result.run_id)
    assert ended is not None
    assert ended.tags["dagster/max_retries"] == "0"
    assert found(engine, foreign.job_key).status is JobState.SUBMITTED


def test_work_for_several_lanes_is_not_left_to_the_last_step_alone(
    engine: Engine, instance: dg.DagsterInstance, database_url: str
) -> None:
    """Executed again from where it failed, and that was `finish`: the relay launches a run that has lanes."""
    job_key = submitted(engine, instance, items=[{"do": "bury"}, *[{}] * 30])
    with run(instance, database_url, job_key, in_process=True, tags=BY_THE_RELAY) as first:
        assert not first.success
    left = found(engine, job_key).open_items
    assert left > 20
    with transaction(engine) as connection:
        connection.execute("CREATE TABLE healed ()")
    tags = BY_THE_RELAY | NO_BUDGET
    again = run(
        instance, database_url, job_key, in_process=True, parent=first.run_id, steps=["echoes.finish"], tags=tags
    )
    with again as second:
        assert second.success
        assert_ended_with(instance, second.run_id, "goes on in another run: it is work for several lanes")
    assert found(engine, job_key).open_items == left + 1
    with transaction(engine) as connection:
        (offer,) = dispatch.offers(connection, ["echo"], dispatch.DispatchLimits())
    assert offer.job_key == job_key
    with run(instance, database_url, job_key, in_process=True, tags=BY_THE_RELAY) as third:
        assert third.success
    assert found(engine, job_key).status is JobState.COMPLETED
