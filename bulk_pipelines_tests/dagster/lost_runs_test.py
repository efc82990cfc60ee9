"""Runs that nobody is behind, and jobs that lost their runs, on a real Dagster instance."""

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch, jobs, submission
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.dagster import echo_definitions
from bulk_pipelines_tests.dagster.passes import began_long_ago, execute, run_of, silent_job, state


def test_a_run_that_nobody_is_behind_is_ended_and_the_job_launched_again(
    engine: Engine, database_url: str, instance: dg.DagsterInstance
) -> None:
    job = silent_job(engine)
    run = run_of(instance, job, dg.DagsterRunStatus.STARTED)
    execute(instance, database_url, "sweep")
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.FAILURE
    assert state(engine, job) == (JobState.RUNNING, False)
    execute(instance, database_url, "sweep")
    assert state(engine, job) == (JobState.RUNNING, False), "Dagster may be about to launch it again by itself"
    instance.add_run_tags(run.run_id, {"dagster/will_retry": "false"})
    execute(instance, database_url, "sweep")
    assert state(engine, job) == (JobState.RUNNING, True)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (dg.DagsterRunStatus.NOT_STARTED, (JobState.RUNNING, False)),
        (dg.DagsterRunStatus.SUCCESS, (JobState.RUNNING, True)),
        (dg.DagsterRunStatus.FAILURE, (JobState.RUNNING, True)),
        (dg.DagsterRunStatus.CANCELED, (JobState.PAUSED, False)),
    ],
)
def test_by_what_became_of_the_run(
    engine: Engine,
    database_url: str,
    instance: dg.DagsterInstance,
    status: dg.DagsterRunStatus,
    expected: tuple[JobState, bool],
) -> None:
    job = silent_job(engine)
    run_of(instance, job, status)
    execute(instance, database_url, "sweep")
    assert state(engine, job) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (dg.DagsterRunStatus.FAILURE, (JobState.SUBMITTED, True)),
        (dg.DagsterRunStatus.CANCELED, (JobState.PAUSED, True)),
    ],
)
def test_a_launch_whose_run_ended_before_it_began_though_the_relay_goes_on_offering_it(
    engine: Engine,
    database_url: str,
    instance: dg.DagsterInstance,
    status: dg.DagsterRunStatus,
    expected: tuple[JobState, bool],
) -> None:
    with transaction(engine) as connection:
        job = submission.submit(connection, Kinds([echo_definitions.KIND]), submission.Request("echo", "me", {})).job
    first = offered(engine)
    run_of(instance, job, status)
    with transaction(engine) as connection:
        connection.execute(
            "UPDATE job SET created_at = now() - interval '1 hour', first_offered_at = now() - interval '1 hour',"
            " offered_at = now() - interval '35 seconds'"
        )
    assert offered(engine) == first, "under the key that Dagster knows already: it comes to no other run"
    execute(instance, database_url, "sweep")
    assert state(engine, job) == expected
    if status is dg.DagsterRunStatus.FAILURE:
        assert offered(engine) == [f"{job.job_key}:1"]


@pytest.mark.parametrize("end", ["COMPLETED", "PAUSED", "gone"])
@pytest.mark.parametrize("by_asset", [False, True])
def test_a_run_is_ended_that_died_when_its_job_was_over_already(
    engine: Engine, database_url: str, instance: dg.DagsterInstance, end: str, by_asset: bool
) -> None:
    """A run that is left would keep a place among the runs for ever."""
    job = silent_job(engine)
    defs = echo_definitions.defs
    definition = defs.resolve_implicit_global_asset_job_def() if by_asset else defs.resolve_job_def("echo")
    run = instance.create_run_for_job(
        definition, status=dg.DagsterRunStatus.STARTED, tags={"dagster/partition": job.job_key}
    )
    with transaction(engine) as connection:
        if end == "gone":
            connection.execute("DELETE FROM job")
        else:
            connection.execute(
                "UPDATE job SET status = %s::job_status, planned_at = now(), updated_at = now(),"
                " finished_at = CASE WHEN %s = 'COMPLETED' THEN now() END",
                [end, end],
            )
    began_long_ago(instance, run)
    ended = execute(instance, database_url, "sweep")["runs ended that nobody was behind"]
    assert ended == (1 if end == "gone" else 0), "it may be about to end"
    with transaction(engine) as connection:
        connection.execute(
            "UPDATE job SET updated_at = now() - interval '2 hours', heartbeat_at = now() - interval '2 hours',"
            " finished_at = finished_at - interval '2 hours'"
        )
    fresh = instance.create_run_for_job(
        definition, status=dg.DagsterRunStatus.STARTED, tags={"dagster/partition": job.job_key}
    )
    execute(instance, database_url, "sweep")
    other = instance.get_run_by_id(fresh.run_id)
    assert other is not None
    assert other.status is dg.DagsterRunStatus.STARTED, "a person looks into the job again"
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status is dg.DagsterRunStatus.FAILURE


def test_a_dead_run_of_a_pass_is_ended_and_what_is_not_ours_is_left_alone(
    engine: Engine, database_url: str, instance: dg.DagsterInstance
) -> None:
    @dg.job
    def somebody_elses() -> None:
        pass

    definitions = [echo_definitions.defs.resolve_job_def("prune"), somebody_elses]
    dead, other = (instance.create_run_for_job(each, status=dg.DagsterRunStatus.STARTED) for each in definitions)
    assert execute(instance, database_url, "sweep")["runs ended that nobody was behind"] == 0
    began_long_ago(instance, dead, other)
    assert execute(instance, database_url, "sweep")["runs ended that nobody was behind"] == 1
    states = [run.status for run in (instance.get_run_by_id(each.run_id) for each in (dead, other)) if run]
    assert states == [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED]


def offered(engine: Engine) -> list[str]:
    with transaction(engine) as connection:
        return [offer.key for offer in dispatch.offers(connection, ["echo"], dispatch.DispatchLimits())]


def test_a_job_whose_runs_keep_dying_is_failed_with_what_the_last_one_said(
    engine: Engine, database_url: str, instance: dg.DagsterInstance
) -> None:
    job = silent_job(engine)
    run = run_of(instance, job, dg.DagsterRunStatus.STARTED)
    instance.report_run_failed(run, "the machine is gone")
    instance.add_run_tags(run.run_id, {"dagster/will_retry": "false"})
    for launch in range(1, 6):
        with transaction(engine) as connection:
            connection.execute(
                "UPDATE job SET run_wanted = false, offered_at = NULL, heartbeat_at = now() - interval '1 hour'"
            )
        execute(instance, database_url, "sweep")
        assert state(engine, job)[0] is (JobState.RUNNING if launch < 5 else JobState.FAILED)
    with transaction(engine) as connection:
        said = jobs.find(connection, job.job_key).last_error
    assert said == (
        f"its runs keep dying: 5 launches were in vain, the last one was run {run.run_id}: the machine is gone"
    )


def test_a_job_that_works_is_left_alone(engine: Engine, database_url: str, instance: dg.DagsterInstance) -> None:
    job = silent_job(engine)
    run = run_of(instance, job, dg.DagsterRunStatus.STARTED)
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET heartbeat_at = now()")
    execute(instance, database_url, "sweep")
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status is dg.DagsterRunStatus.STARTED
