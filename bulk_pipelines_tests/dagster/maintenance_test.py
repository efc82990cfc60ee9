"""The maintenance jobs on a real Dagster instance: lost runs, partition keys, old runs."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, InstigatorType, TickData, TickStatus
from sqlalchemy import Engine

from bulk_pipelines import definitions
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch, jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.maintenance.definitions import Upkeep, maintenance
from bulk_pipelines.maintenance.retention import Part
from bulk_pipelines.orchestration import history
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.dagster import echo_definitions


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def execute(instance: dg.DagsterInstance, url: str, name: str, **config: Any) -> dict[str, Any]:
    """Run one of the maintenance jobs; what it says it did."""
    job = echo_definitions.defs.resolve_job_def(name)
    run_config: dict[str, Any] = {"resources": {"database": {"config": {"url": url}}}}
    if config:
        run_config["ops"] = {f"{name}_pass": {"config": config}}
    result = job.execute_in_process(instance=instance, run_config=run_config)
    (event,) = [event for event in result.all_events if event.event_type_value == "STEP_OUTPUT"]
    return {key: value.value for key, value in event.step_output_data.metadata.items()}


def silent_job(engine: Engine) -> Job:
    """A job that a run began to work a long while ago."""
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


def began_long_ago(instance: dg.DagsterInstance, *dead: dg.DagsterRun) -> None:
    with closing(sqlite3.connect(Path(instance.root_directory) / "history" / "runs.db")) as runs, runs:
        for run in dead:
            runs.execute(
                "UPDATE runs SET create_timestamp = datetime('now', '-1 day'), start_time = unixepoch() - 86400"
                " WHERE run_id = ?",
                [run.run_id],
            )


@pytest.mark.parametrize("end", ["COMPLETED", "PAUSED", "gone"])
@pytest.mark.parametrize("by_asset", [False, True])
def test_a_run_is_ended_that_died_when_its_job_was_over_already(
    engine: Engine, database_url: str, instance: dg.DagsterInstance, end: str, by_asset: bool
) -> None:
    """It would keep a place among the runs for ever."""
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


def test_the_launchpad_of_retention_opens_with_its_choice() -> None:
    job = echo_definitions.defs.resolve_job_def("prune")
    assert job.run_config == {"ops": {"prune_pass": {"config": {"dry_run": False}}}}


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


def test_the_finalizer_ends_what_its_worker_could_not(
    engine: Engine, database_url: str, instance: dg.DagsterInstance
) -> None:
    job = silent_job(engine)
    with transaction(engine) as connection:
        jobs.seal(connection, job.job_id)
    assert execute(instance, database_url, "finalize") == {"jobs ended": 1, "jobs wound up": 0}
    assert state(engine, job)[0] is JobState.COMPLETED


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
    """Those that are not over stay, however old they are."""
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
    """Of a sensor that is there no more: nothing else would remove them."""
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
