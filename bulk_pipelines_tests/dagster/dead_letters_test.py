"""Runs whose jobs end with dead letters: they fail and say which, whatever the kind, and to execute them again redrives
what was given up."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dlq, jobs, submission
from bulk_pipelines.engine.jobs.dlq import Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.dagster import echo_definitions

BURIED: dict[str, Any] = {"do": "bury"}
MISSED: dict[str, Any] = {"do": "miss"}


def patient_job() -> dg.JobDefinition:
    return echo_definitions.defs.resolve_job_def("patient_echo")


class Scene:
    """A Dagster instance, and jobs of a kind that goes on beside its dead letters."""

    def __init__(self, engine: Engine, url: str, instance: dg.DagsterInstance) -> None:
        self.engine = engine
        self.url = url
        self.instance = instance

    def submitted(self, *items: dict[str, Any]) -> str:
        with transaction(self.engine) as connection:
            request = submission.Request("patient_echo", "me", {"items": list(items)})
            return submission.submit(connection, Kinds([echo_definitions.PATIENT_KIND]), request).job.job_key

    def run(
        self, job_key: str, parent: str | None = None, steps: Sequence[str] = (), tags: Mapping[str, str] | None = None
    ) -> dg.JobExecutionResult:
        with dg.execute_job(
            dg.reconstructable(patient_job),
            instance=self.instance,
            run_config={
                "execution": {"config": {"in_process": True}},
                "resources": {"database": {"config": {"url": self.url}}},
            },
            tags={"dagster/partition": job_key, **(tags or {})},
            reexecution_options=dg.ReexecutionOptions(parent_run_id=parent, step_selection=steps) if parent else None,
        ) as result:
            return result

    def job(self, job_key: str) -> Job:
        with transaction(self.engine) as connection:
            return jobs.find(connection, job_key)

    def heal(self) -> None:
        with transaction(self.engine) as connection:
            connection.execute("CREATE TABLE healed ()")

    def tags(self, result: dg.JobExecutionResult) -> Mapping[str, str]:
        run = self.instance.get_run_by_id(result.run_id)
        assert run is not None
        return run.tags

    def is_materialized(self, job_key: str) -> bool:
        return job_key in self.instance.get_materialized_partitions(dg.AssetKey("patient_echoes"))


@pytest.fixture
def scene(tmp_path: Path, engine: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    with dg.DagsterInstance.local_temp(str(tmp_path), {"run_retries": {"enabled": True, "max_retries": 3}}) as made:
        yield Scene(engine, database_url, made)


def failure_of(result: dg.JobExecutionResult) -> Any:
    assert not result.success
    (event,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    assert not [event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
    return event.step_failure_data.user_failure_data


@pytest.mark.parametrize("from_failure", [False, True])
def test_a_job_that_ends_with_some_dead_letters_fails_its_run_and_running_it_again_redrives(
    scene: Scene, from_failure: bool
) -> None:
    job_key = scene.submitted(*[{}] * 5, *[BURIED] * 12)
    first = scene.run(job_key)
    failed = failure_of(first)
    assert scene.job(job_key).status is JobState.COMPLETED_WITH_ERRORS, "the job says that something was done"
    assert not scene.is_materialized(job_key)
    reason = failed.description.splitlines()[0]
    assert reason == (
        f"job {job_key} ended with dead letters: 12 of 17 items; the first one is 00005 (permanent): cannot be done"
    )
    shown = failed.metadata
    assert (shown["dead_letters"].value, shown["items"].value, shown["succeeded"].value) == (12, 17, 5)
    assert [record.data for record in shown["first_dead_letters"].value.records] == [
        {"item": f"{number:05}", "kind of error": "permanent", "why": "cannot be done", "attempts": 1}
        for number in range(5, 15)
    ]
    assert shown["all_dead_letters"].value == f"bulk dlq list --job {job_key}"
    assert scene.tags(first)["dagster/max_retries"] == "0", "Dagster does not start it again by itself"

    scene.heal()
    again = scene.run(job_key, first.run_id, ["patient_echoes.finish"] if from_failure else [])
    if from_failure:
        assert "work for several lanes" in scene.tags(again)["bulk/ended"]
        again = scene.run(job_key, tags={"bulk/launch": "1"})
    assert again.success
    job = scene.job(job_key)
    assert (job.status, job.dlq_items, job.succeeded_items) == (JobState.COMPLETED, 0, 17)
    assert scene.is_materialized(job_key)


def test_dagster_s_own_retry_of_such_a_run_fails_with_the_same_reason(scene: Scene) -> None:
    job_key = scene.submitted({}, BURIED)
    first = scene.run(job_key, tags={"bulk/launch": "0"})
    scene.heal()
    again = scene.run(job_key, first.run_id, tags={"bulk/launch": "0", "dagster/retry_number": "1"})
    assert failure_of(again).description == failure_of(first).description
    assert scene.job(job_key).dlq_items == 1


def test_discarded_dead_letters_fail_no_run(scene: Scene) -> None:
    job_key = scene.submitted({}, BURIED)
    first = scene.run(job_key)
    assert not first.success
    assert dlq.discard(scene.engine, Wanted(job_key=job_key)) == 1
    again = scene.run(job_key, first.run_id, ["patient_echoes.finish"])
    assert again.success
    assert scene.is_materialized(job_key)


def test_dead_letters_that_retention_has_removed_are_counted_all_the_same(scene: Scene) -> None:
    job_key = scene.submitted({}, BURIED)
    first = scene.run(job_key)
    with transaction(scene.engine) as connection:
        connection.execute("DELETE FROM job_item")
    again = scene.run(job_key, first.run_id)
    assert failure_of(again).description == (
        f"job {job_key} ended with dead letters: 1 of 2 items; retention has removed them"
    )


def test_items_that_were_not_found_fail_no_run_and_are_tried_again_when_that_is_asked_for(scene: Scene) -> None:
    job_key = scene.submitted({}, MISSED, MISSED)
    first = scene.run(job_key)
    assert first.success
    assert scene.job(job_key).not_found_items == 2
    assert scene.is_materialized(job_key)
    scene.heal()
    second = scene.run(job_key, first.run_id)
    assert second.success
    assert scene.job(job_key).not_found_items == 2, "nobody asked for them"
    third = scene.run(job_key, first.run_id, tags={"bulk/redrive": "not_found"})
    assert third.success
    job = scene.job(job_key)
    assert (job.status, job.not_found_items, job.succeeded_items) == (JobState.COMPLETED, 0, 3)
    assert scene.tags(third)["bulk/redrive"] == "done"


def test_a_redrive_of_dead_letters_leaves_items_that_were_not_found_alone(scene: Scene) -> None:
    job_key = scene.submitted(MISSED, BURIED)
    first = scene.run(job_key)
    assert not first.success
    scene.heal()
    assert scene.run(job_key, first.run_id, tags={"bulk/redrive": "done"}).success, "it was copied from an earlier run"
    job = scene.job(job_key)
    assert (job.not_found_items, job.succeeded_items) == (1, 1)


def test_a_run_that_asks_for_an_unknown_redrive_fails_and_says_so(scene: Scene) -> None:
    job_key = scene.submitted({})
    failed = failure_of(scene.run(job_key, tags={"bulk/redrive": "everything"}))
    assert failed.description == "the tag bulk/redrive: 'everything' is not not_found"
    assert scene.job(job_key).status is JobState.SUBMITTED


def test_a_run_that_ends_well_takes_back_what_it_copied_of_the_end_of_another(scene: Scene) -> None:
    job_key = scene.submitted({})
    ended = scene.run(job_key, tags={"bulk/ended": f"job {job_key} is PAUSED: nothing is materialized"})
    assert ended.success
    assert scene.tags(ended)["bulk/ended"] == f"job {job_key} is COMPLETED"
