"""Runs that a person has terminated: what the relay and the sweeper make of them, on a real instance."""

import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, runs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.orchestration import terminations
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines_tests.dagster import echo_definitions
from bulk_pipelines_tests.scenes.waiting import until

STATUS = dg.DagsterRunStatus
KINDS = ["echo", "patient_echo"]
CANCELS = {"bulk/on_terminate": "cancel"}


class Scene:
    def __init__(self, engine: Engine, url: str, instance: dg.DagsterInstance) -> None:
        self.engine = engine
        self.url = url
        self.instance = instance

    def submitted(self, items: int = 3) -> Job:
        with transaction(self.engine) as connection:
            request = submission.Request("echo", "me", {"items": [{}] * items})
            job = submission.submit(connection, Kinds([echo_definitions.KIND]), request).job
        echo_definitions.plan(self.engine, job)
        return job

    def run(
        self, job: Job, status: dg.DagsterRunStatus, tags: Mapping[str, str] | None = None, *, begun: bool = True
    ) -> dg.DagsterRun:
        """A run of the job, which has taken the job up if it has begun."""
        definition = echo_definitions.defs.resolve_job_def("echo")
        given = {"dagster/partition": job.job_key, "bulk/launch": "0", **(tags or {})}
        run = self.instance.create_run_for_job(definition, status=status, tags=given)
        if begun:
            runs.take_up(self.engine, job.job_key, run.run_id, by_person=False)
        return run

    def worked(self) -> Job:
        job = self.submitted()
        self.run(job, STATUS.CANCELING)
        return job

    def heed(self) -> list[str]:
        return terminations.heed(self.instance, self.engine, KINDS)

    def state(self, job: Job) -> JobState:
        return self.find(job).status

    def find(self, job: Job) -> Job:
        with transaction(self.engine) as connection:
            return jobs.find(connection, job.job_key)

    def resume(self, job: Job) -> None:
        with transaction(self.engine) as connection:
            jobs.resume(connection, job.job_key)

    def execute(self, name: str) -> dict[str, Any]:
        result = echo_definitions.defs.resolve_job_def(name).execute_in_process(
            instance=self.instance, run_config={"resources": {"database": {"config": {"url": self.url}}}}
        )
        (event,) = [event for event in result.all_events if event.event_type_value == "STEP_OUTPUT"]
        return {key: value.value for key, value in event.step_output_data.metadata.items()}

    def silence(self, job: Job) -> None:
        with transaction(self.engine) as connection:
            connection.execute(
                "UPDATE job SET heartbeat_at = now() - interval '1 hour', created_at = now() - interval '2 hours',"
                " run_wanted = false WHERE job_id = %s",
                [job.job_id],
            )


@pytest.fixture
def scene(tmp_path: Path, engine: Engine, database_url: str) -> Iterator[Scene]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield Scene(engine, database_url, made)


@pytest.mark.parametrize("status", [STATUS.CANCELING, STATUS.CANCELED])
@pytest.mark.parametrize("begun", [True, False])
def test_to_terminate_the_run_of_a_job_pauses_the_job(scene: Scene, status: dg.DagsterRunStatus, begun: bool) -> None:
    """The job is paused even if its run was still in the queue."""
    job = scene.submitted()
    run = scene.run(job, status, begun=begun)
    context = dg.build_sensor_context(
        instance=scene.instance, definitions=echo_definitions.defs, resources={"database": Database(url=scene.url)}
    )
    told = echo_definitions.defs.resolve_sensor_def("relay")(context)
    said = f"job {job.job_key} is PAUSED, because its run was terminated"
    assert isinstance(told, dg.SkipReason), "a job that is paused before its launch is not launched"
    assert told.skip_message == said
    assert scene.state(job) is JobState.PAUSED
    found = scene.instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.tags["bulk/ended"] == said
    assert scene.heed() == []


def test_a_tag_makes_it_a_cancel(scene: Scene) -> None:
    job = scene.submitted()
    scene.run(job, STATUS.CANCELED, CANCELS)
    assert scene.heed() == [f"job {job.job_key} is CANCELLED, because its run was terminated"]
    assert (scene.find(job).cancelled_items, scene.find(job).open_items) == (3, 0)


def test_a_job_that_is_resumed_is_not_stopped_again_by_the_same_run(scene: Scene) -> None:
    job = scene.worked()
    assert scene.heed()
    scene.resume(job)
    assert scene.heed() == []
    assert scene.state(job) is JobState.RUNNING


def test_the_sweeper_stops_what_nobody_has_seen_and_launches_what_was_resumed(scene: Scene) -> None:
    job = scene.submitted()
    scene.run(job, STATUS.CANCELED)
    scene.silence(job)
    assert scene.execute("sweep")["jobs paused, their run was terminated"] == 1
    scene.resume(job)
    scene.silence(job)
    assert scene.execute("sweep")["jobs to be launched again"] == 1
    assert scene.state(job) is JobState.RUNNING


def test_the_sweeper_cancels_what_its_run_s_tag_says(scene: Scene) -> None:
    job = scene.submitted()
    scene.run(job, STATUS.CANCELED, CANCELS)
    scene.silence(job)
    assert scene.execute("sweep")["jobs cancelled, their run was terminated"] == 1
    assert (scene.state(job), scene.find(job).cancelled_items) == (JobState.CANCELLED, 3)


@pytest.mark.parametrize("other", [STATUS.NOT_STARTED, STATUS.STARTED, STATUS.SUCCESS])
def test_a_job_that_has_a_later_run_is_not_stopped(scene: Scene, other: dg.DagsterRunStatus) -> None:
    job = scene.worked()
    scene.run(job, other)
    assert scene.heed() == []
    assert scene.state(job) is JobState.RUNNING


def test_a_job_that_another_run_works_is_not_stopped(scene: Scene) -> None:
    """Somebody launched a second run by hand, and thought better of it."""
    job = scene.submitted()
    scene.run(job, STATUS.STARTED)
    scene.run(job, STATUS.CANCELED, begun=False)
    assert scene.heed() == []
    assert scene.state(job) is JobState.RUNNING


def test_a_job_that_is_over_stays_as_it_is(scene: Scene) -> None:
    job = scene.submitted()
    scene.run(job, STATUS.CANCELED, CANCELS)
    with transaction(scene.engine) as connection:
        connection.execute("UPDATE job_item SET status = 'SUCCEEDED'")
        connection.execute(
            "UPDATE job SET status = 'COMPLETED', finished_at = now(), pending_items = 0, succeeded_items = 3"
        )
    assert scene.heed() == []
    assert scene.state(job) is JobState.COMPLETED


def test_runs_of_others_and_of_unknown_jobs_are_left_alone(scene: Scene) -> None:
    @dg.job
    def somebody_elses() -> None:
        pass

    job = scene.submitted()
    tags = {"dagster/partition": job.job_key}
    scene.instance.create_run_for_job(somebody_elses, status=STATUS.CANCELED, tags=tags)
    gone = scene.submitted()
    scene.run(gone, STATUS.CANCELED, begun=False)
    with transaction(scene.engine) as connection:
        connection.execute("DELETE FROM job WHERE job_id = %s", [gone.job_id])
    assert scene.heed() == []
    assert scene.state(job) is JobState.SUBMITTED


def test_a_person_s_run_that_is_terminated_before_its_first_step_resumes_nothing(scene: Scene) -> None:
    job = scene.worked()
    assert scene.heed()
    again = scene.run(job, STATUS.CANCELING, begun=False)
    assert scene.heed() == [], "the job is paused already"
    assert runs.take_up(scene.engine, job.job_key, again.run_id, by_person=True).job.status is JobState.PAUSED


def test_dagster_is_asked_once_a_second(scene: Scene) -> None:
    now = 100.0
    look = terminations.watch(scene.instance, scene.engine, KINDS, lambda: now)
    assert look() == []
    scene.worked()
    now += 0.5
    assert look() == []
    now += 0.5
    assert len(look()) == 1


def echo_job() -> dg.JobDefinition:
    return echo_definitions.defs.resolve_job_def("echo")


@pytest.mark.long
@pytest.mark.parametrize("terminated", [True, False])
def test_a_step_that_is_interrupted_pauses_the_job_if_its_run_was_terminated(
    engine: Engine, database_url: str, tmp_path: Path, terminated: bool
) -> None:
    """Dagster starts the step again, because it has a retry policy. If the whole installation was stopped, the job is
    to go on."""
    with transaction(engine) as connection:
        request = submission.Request("echo", "me", {"items": [{"do": "last", "steps": 40}]})
        job = submission.submit(connection, Kinds([echo_definitions.KIND]), request).job

    def interrupt(instance: dg.DagsterInstance) -> None:
        query = "SELECT checkpoint IS NOT NULL FROM job_item"

        def is_at_work() -> bool:
            with transaction(engine) as connection:
                return connection.execute(query).fetchone() == (True,)

        until(is_at_work, "the item is at work", 120)
        (run,) = instance.get_runs()
        if terminated:
            instance.report_run_canceling(run)
        os.kill(os.getpid(), signal.SIGINT)

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance, ThreadPoolExecutor(1) as threads:
        instance.add_dynamic_partitions("echo_jobs", [job.job_key])
        interrupted = threads.submit(interrupt, instance)
        with dg.execute_job(
            dg.reconstructable(echo_job),
            instance=instance,
            run_config={
                "execution": {"config": {"in_process": True}},
                "resources": {"database": {"config": {"url": database_url}}},
            },
            tags={"dagster/partition": job.job_key, "bulk/launch": "0"},
        ) as result:
            interrupted.result()
            assert result.success
            assert [event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
    with transaction(engine) as connection:
        assert jobs.find(connection, job.job_key).status is (JobState.PAUSED if terminated else JobState.COMPLETED)
