"""Jobs of notices in Dagster: a run fails when a notice could not be delivered, and executing it again delivers it."""

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.notices import outbox
from bulk_pipelines.notices.definitions import launchables, notices
from bulk_pipelines.notices.request import KIND, EventType
from bulk_pipelines.orchestration.resources import Database, step_executor
from bulk_pipelines_tests.scenes.notices import Receiver, ended, subscribed
from bulk_pipelines_tests.servers.web_server import status


def test_a_notice_that_nobody_takes_fails_its_run_which_says_why_and_redrives(
    engine: Engine, instance: dg.DagsterInstance
) -> None:
    resources = {"database": Database()}
    definitions = dg.Definitions.merge(
        notices(launchables()), dg.Definitions(resources=resources, executor=step_executor)
    )

    def run(job_key: str) -> dg.ExecuteInProcessResult:
        return definitions.resolve_job_def(KIND).execute_in_process(
            instance=instance, partition_key=job_key, raise_on_error=False
        )

    with Receiver(status(410)) as receiver:
        subscribed(engine, receiver.address, EventType.JOB_ENDED)
        ended(engine)
        (job_key,) = outbox.run_once(engine).jobs
        instance.add_dynamic_partitions(f"{KIND}_jobs", [job_key])
        first = run(job_key)
        again = run(job_key)
    (failed,) = [event for event in first.all_events if event.event_type_value == "STEP_FAILURE"]
    given = failed.step_failure_data.user_failure_data
    assert given is not None
    reason = str(given.description)
    assert reason.startswith(f"job {job_key} failed: the DLQ has 1 of 1 item; the first one is ")
    assert "410" in reason
    assert again.success
    with transaction(engine) as connection:
        assert jobs.find(connection, job_key).status is JobState.COMPLETED
