"""The passes of maintenance on a real Dagster instance: when their schedules launch them, and what they say."""

from collections.abc import Callable
from dataclasses import replace

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines import definitions
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.maintenance.definitions import Upkeep, maintenance
from bulk_pipelines.maintenance.retention import Part
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.dagster import echo_definitions
from bulk_pipelines_tests.dagster.passes import began_long_ago, execute, run_of, silent_job, state


def test_the_launchpad_of_retention_opens_with_its_choice() -> None:
    job = echo_definitions.defs.resolve_job_def("prune")
    assert job.run_config == {"ops": {"prune_pass": {"config": {"dry_run": False}}}}


def test_the_finalizer_ends_what_its_worker_could_not(
    engine: Engine, database_url: str, instance: dg.DagsterInstance
) -> None:
    job = silent_job(engine)
    with transaction(engine) as connection:
        jobs.seal(connection, job.job_id)
    assert execute(instance, database_url, "finalize") == {"jobs ended": 1, "jobs wound up": 0}
    assert state(engine, job)[0] is JobState.COMPLETED


def test_a_part_that_fails_fails_the_run_with_its_reason(
    engine: Engine, database_url: str, instance: dg.DagsterInstance
) -> None:
    def failing(pool: Engine, chosen: Settings, dry_run: bool) -> int:
        raise Unavailable("the storage is down")

    kinds = Kinds([echo_definitions.KIND])
    defs = dg.Definitions.merge(
        maintenance(Upkeep(kinds, [Part("landed files", failing)])),
        dg.Definitions(resources={"database": Database(url=database_url)}),
    )
    result = defs.resolve_job_def("prune").execute_in_process(instance=instance, raise_on_error=False)
    assert not result.success
    assert "landed files: the storage is down; jobs: kept until" in str(result.all_events)


@pytest.mark.parametrize(
    ("name", "cron"), [("sweep", "*/15 * * * *"), ("finalize", "*/5 * * * *"), ("prune", "17 3 * * *")]
)
def test_the_schedules_are_on_by_default(name: str, cron: str) -> None:
    schedule = echo_definitions.defs.resolve_schedule_def(f"{name}_schedule")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    assert schedule.cron_schedule == cron


def evaluated(instance: dg.DagsterInstance, url: str, name: str) -> dg.RunRequest | dg.SkipReason:
    """What a tick of the schedule says."""
    context = dg.build_schedule_context(instance=instance, resources={"database": Database(url=url)})
    said = definitions.defs.resolve_schedule_def(f"{name}_schedule")(context)
    assert isinstance(said, dg.RunRequest | dg.SkipReason)
    return said


@pytest.mark.parametrize("name", ["sweep", "finalize"])
def test_a_pass_that_has_nothing_to_do_is_no_run(
    engine: Engine, database_url: str, instance: dg.DagsterInstance, name: str
) -> None:
    job = silent_job(engine)
    run_of(instance, job, dg.DagsterRunStatus.NOT_STARTED)
    said = evaluated(instance, database_url, name)
    assert isinstance(said, dg.SkipReason), "the job's run waits in the queue, and is left alone"
    assert (said.skip_message or "").startswith("nothing to do: ")


def expired_claim(engine: Engine, job: Job) -> None:
    with transaction(engine) as connection:
        connection.execute(
            "INSERT INTO claim (claim_id, job_id, owner, item_ids, look_at)"
            " VALUES (1, %s, 'dead', '{}', now() - interval '1 hour')",
            [job.job_id],
        )


def ended_in_vain(engine: Engine, job: Job) -> None:
    """An import that was cancelled, and that nobody has wound up."""
    with transaction(engine) as connection:
        jobs.seal(connection, job.job_id)
        connection.execute("UPDATE job SET kind = 'import_users', status = 'CANCELLED', finished_at = now()")


def with_nothing_open(engine: Engine, job: Job) -> None:
    with transaction(engine) as connection:
        jobs.seal(connection, job.job_id)


def half_cancelled(engine: Engine, job: Job) -> None:
    echo_definitions.plan(engine, replace(job, params={"items": [{}]}))
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET status = 'CANCELLED', finished_at = now()")


@pytest.mark.parametrize(
    ("name", "left", "status"),
    [
        ("sweep", expired_claim, dg.DagsterRunStatus.NOT_STARTED),
        ("sweep", ended_in_vain, dg.DagsterRunStatus.NOT_STARTED),
        ("sweep", with_nothing_open, dg.DagsterRunStatus.NOT_STARTED),
        ("sweep", lambda engine, job: None, dg.DagsterRunStatus.STARTED),
        ("sweep", lambda engine, job: None, dg.DagsterRunStatus.SUCCESS),
        ("finalize", ended_in_vain, dg.DagsterRunStatus.NOT_STARTED),
        ("finalize", with_nothing_open, dg.DagsterRunStatus.NOT_STARTED),
        ("finalize", half_cancelled, dg.DagsterRunStatus.NOT_STARTED),
    ],
)
def test_a_pass_that_has_something_to_do_is_a_run(
    engine: Engine,
    database_url: str,
    instance: dg.DagsterInstance,
    name: str,
    left: Callable[[Engine, Job], None],
    status: dg.DagsterRunStatus,
) -> None:
    job = silent_job(engine)
    run_of(instance, job, status)
    left(engine, job)
    assert isinstance(evaluated(instance, database_url, name), dg.RunRequest)


def test_a_stray_run_is_something_to_do(engine: Engine, database_url: str, instance: dg.DagsterInstance) -> None:
    definition = echo_definitions.defs.resolve_job_def("prune")
    dead = instance.create_run_for_job(definition, status=dg.DagsterRunStatus.STARTED)
    assert isinstance(evaluated(instance, database_url, "sweep"), dg.SkipReason)
    began_long_ago(instance, dead)
    assert isinstance(evaluated(instance, database_url, "sweep"), dg.RunRequest)
