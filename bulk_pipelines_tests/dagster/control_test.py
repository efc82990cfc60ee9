"""The jobs of the launchpad that pause, resume, cancel and redrive a job."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines import definitions
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.dagster import echo_definitions

Execute = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def execute(tmp_path: Path, database_url: str) -> Iterator[Execute]:
    """Launches one of the jobs, with this configuration."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:

        def launched(name: str, **config: Any) -> dg.ExecuteInProcessResult:
            return definitions.defs.resolve_job_def(name).execute_in_process(
                instance=instance,
                run_config={
                    "ops": {f"{name}_job": {"config": config}},
                    "resources": {"database": {"config": {"url": database_url}}},
                },
                raise_on_error=False,
            )

        yield launched


def submitted(engine: Engine, items: int = 4) -> Job:
    with transaction(engine) as connection:
        request = submission.Request("patient_echo", "me", {"items": [{}] * items})
        job = submission.submit(connection, Kinds([echo_definitions.PATIENT_KIND]), request).job
    echo_definitions.plan(engine, job)
    return job


def ended(engine: Engine) -> Job:
    """A job that is over: of its four items, one was buried and one was not found."""
    job = submitted(engine)
    with transaction(engine) as connection:
        jobs.start(connection, job.job_key)
        connection.execute(
            "UPDATE job_item SET status = (ARRAY['DLQ', 'NOT_FOUND', 'SUCCEEDED', 'SUCCEEDED'])"
            "[item_key::int + 1]::item_status, error_message = 'x'"
        )
        connection.execute(
            "UPDATE job SET status = 'COMPLETED_WITH_ERRORS', finished_at = now(), pending_items = 0, dlq_items = 1,"
            " not_found_items = 1, succeeded_items = 2, run_wanted = false"
        )
    return job


def found(engine: Engine, job: Job) -> Job:
    with transaction(engine) as connection:
        return jobs.find(connection, job.job_key)


def said(result: dg.ExecuteInProcessResult) -> str:
    assert result.success
    (event,) = [event for event in result.all_events if event.event_type_value == "STEP_OUTPUT"]
    return str(event.step_output_data.metadata["said"].value)


def why_failed(result: dg.ExecuteInProcessResult) -> str:
    assert not result.success
    (event,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    found = event.step_failure_data.user_failure_data
    assert found is not None
    return str(found.description)


def test_a_job_is_paused_resumed_and_cancelled(engine: Engine, execute: Execute) -> None:
    job = submitted(engine)
    for name, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("cancel", "CANCELLED")):
        assert said(execute(name, job=job.job_key)) == f"job {job.job_key} is {state}"
        assert found(engine, job).status == state
    assert found(engine, job).cancelled_items == 4


@pytest.mark.parametrize(
    ("config", "items", "left", "words"),
    [({}, 1, 1, "1 item of job {} is tried again"), ({"not_found": True}, 2, 0, "2 items of job {} are tried again")],
)
def test_a_redrive_takes_the_dead_letters_and_what_was_not_found_when_asked(
    engine: Engine, execute: Execute, config: dict[str, bool], items: int, left: int, words: str
) -> None:
    job = ended(engine)
    assert said(execute("redrive", job=job.job_key, **config)) == words.format(job.job_key)
    after = found(engine, job)
    assert (after.status, after.pending_items, after.not_found_items) == (JobState.RUNNING, items, left)
    with transaction(engine) as connection:
        assert connection.execute("SELECT run_wanted FROM job").fetchone() == (True,)


@pytest.mark.parametrize("name", ["pause", "resume", "cancel", "redrive"])
def test_an_unknown_job_and_a_move_that_is_not_allowed_fail_in_one_line(
    engine: Engine, execute: Execute, name: str
) -> None:
    assert why_failed(execute(name, job="J00000000_000000")) == "no job has the key 'J00000000_000000'"
    if name == "redrive":
        return
    job = ended(engine)
    assert why_failed(execute(name, job=job.job_key)).startswith(f"job {job.job_key} is COMPLETED_WITH_ERRORS")


@pytest.mark.parametrize("name", ["pause", "resume", "cancel", "redrive"])
def test_the_launchpad_opens_with_a_key_that_no_job_has(name: str) -> None:
    job = definitions.defs.resolve_job_def(name)
    assert job.run_config == {"ops": {f"{name}_job": {"config": {"job": "J00000000_000000"}}}}
