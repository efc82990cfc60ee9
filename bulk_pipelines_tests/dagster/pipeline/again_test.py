"""A job's second run, after a pause, a death, a burial or a plan that was cut short: it goes on, and undoes nothing."""

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch, dlq, jobs, runs
from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.scenes.echo_runs import BY_THE_RELAY, found, materialized, run, submitted


@pytest.mark.parametrize("from_failure", [False, True])
def test_a_buried_item_fails_the_run_for_good_and_running_it_again_redrives(
    engine: Engine, instance: dg.DagsterInstance, database_url: str, from_failure: bool
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
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET dagster_run_id = 'a later one'")
        (letter,) = dlq.page(connection, dlq.Wanted(job_key=job_key))
        assert letter.dagster_run_id == result.run_id == dlq.show(connection, letter.item_id)["dagster_run_id"]
    assert not materialized(instance, job_key)

    with transaction(engine) as connection:
        connection.execute("CREATE TABLE healed ()")
    steps = ["echoes.finish"] if from_failure else None
    with run(instance, database_url, job_key, in_process=True, parent=first.run_id, steps=steps) as again:
        assert again.success
        second = instance.get_run_by_id(again.run_id)
        assert second is not None
        assert second.tags["dagster/max_retries"] == "3", "if its worker dies, it is started again"
    job = found(engine, job_key)
    assert (job.status, job.dlq_items, job.succeeded_items) == (JobState.COMPLETED, 0, 1)
    assert materialized(instance, job_key)


def test_a_job_that_could_not_be_planned_is_planned_by_another_run(
    engine: Engine, instance: dg.DagsterInstance, database_url: str
) -> None:
    """Executed again from where it failed, which was its last step."""
    job_key = submitted(engine, instance, refuse=True, items=[{}])
    with run(instance, database_url, job_key, in_process=True) as first:
        assert not first.success
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET params = params - 'refuse'")
    again = run(instance, database_url, job_key, in_process=True, parent=first.run_id, steps=["echoes.finish"])
    with again as second:
        assert second.success
        assert_ended_with(instance, second.run_id, "goes on in another run: it is to be planned")
    with transaction(engine) as connection:
        (offer,) = dispatch.offers(connection, ["echo"], dispatch.DispatchLimits())
    assert offer.job_key == job_key
    with run(instance, database_url, job_key, in_process=True, tags=BY_THE_RELAY) as third:
        assert third.success
    assert found(engine, job_key).status is JobState.COMPLETED


def assert_ended_with(instance: dg.DagsterInstance, run_id: str, words: str) -> None:
    """What the list of runs shows of it."""
    ended = instance.get_run_by_id(run_id)
    assert ended is not None
    assert words in ended.tags["bulk/ended"]


@pytest.mark.parametrize("how", ["executed again", "launched by hand", "executed again from failure"])
def test_a_person_s_run_of_a_paused_job_resumes_it(
    engine: Engine, instance: dg.DagsterInstance, database_url: str, how: str
) -> None:
    job_key = submitted(engine, instance, items=[{}] * 4)
    with run(instance, database_url, job_key, in_process=True, tags=BY_THE_RELAY) as first:
        assert first.success
    with transaction(engine) as connection:
        connection.execute("UPDATE job_item SET status = 'PENDING'")
        connection.execute(
            "UPDATE job SET status = 'PAUSED', finished_at = NULL, pending_items = 4, succeeded_items = 0"
        )
    parent = None if how == "launched by hand" else first.run_id
    steps = ["echoes.lane_2", "echoes.finish"] if how == "executed again from failure" else None
    with run(instance, database_url, job_key, in_process=True, parent=parent, steps=steps) as again:
        assert again.success
    job = found(engine, job_key)
    assert (job.status, job.succeeded_items, job.dagster_run_id) == (JobState.COMPLETED, 4, again.run_id)
    with transaction(engine) as connection:
        assert connection.execute("SELECT run_wanted FROM job").fetchone() == (False,)


def test_dagster_s_own_retry_leaves_a_paused_and_a_failed_job_alone(
    engine: Engine, instance: dg.DagsterInstance, database_url: str
) -> None:
    paused, failed = submitted(engine, instance, items=[{}]), submitted(engine, instance, items=[{"do": "bury"}])
    with transaction(engine) as connection:
        jobs.pause(connection, paused)
    with run(instance, database_url, paused, in_process=True, tags=BY_THE_RELAY) as first:
        parent = first.run_id
    retry = {**BY_THE_RELAY, "dagster/retry_number": "1"}
    with run(instance, database_url, paused, in_process=True, parent=parent, tags=retry) as again:
        assert again.success
    assert found(engine, paused).status is JobState.PAUSED
    with run(instance, database_url, failed, in_process=True, tags=BY_THE_RELAY) as first:
        parent = first.run_id
    with transaction(engine) as connection:
        connection.execute("CREATE TABLE healed ()")
    with run(instance, database_url, failed, in_process=True, parent=parent, tags=retry) as again:
        assert not again.success
    assert found(engine, failed).dlq_items == 1


def test_a_pause_is_not_undone_by_the_next_step_of_a_person_s_run(
    engine: Engine, instance: dg.DagsterInstance, database_url: str
) -> None:
    """What the run's beginning means is decided once, whatever other runs of the job write meanwhile."""
    job_key = submitted(engine, instance, items=[{"do": "pause"}, {}, {}, {}, {}, {}, {}, {}])
    with run(instance, database_url, job_key, in_process=True) as result:
        assert result.success
        assert_ended_with(instance, result.run_id, "is PAUSED: nothing is materialized")
    job = found(engine, job_key)
    assert job.status is JobState.PAUSED
    assert job.open_items
    assert job.attempts == 1, "a run is one, however many steps it has"
    with run(instance, database_url, job_key, in_process=True, parent=result.run_id) as again:
        assert again.success
    assert (found(engine, job_key).status, found(engine, job_key).attempts) == (JobState.COMPLETED, 2)


def test_what_a_person_s_run_buries_is_not_redriven_by_its_own_last_step(
    engine: Engine, instance: dg.DagsterInstance, database_url: str
) -> None:
    job_key = submitted(engine, instance, items=[{"do": "bury beside another run"}])
    with run(instance, database_url, job_key, in_process=True) as result:
        assert not result.success
    with transaction(engine) as connection:
        assert connection.execute("SELECT status::text, lease_term FROM job_item").fetchall() == [("DLQ", 1)]
    job = found(engine, job_key)
    assert (job.status, job.attempts) == (JobState.FAILED, 1)


def test_a_run_that_died_while_it_redrove_goes_on_with_it(
    engine: Engine, instance: dg.DagsterInstance, database_url: str
) -> None:
    job_key = submitted(engine, instance, items=[{"do": "bury"}] * 5)
    with run(instance, database_url, job_key, in_process=True, tags=BY_THE_RELAY) as first:
        assert not first.success
    with transaction(engine) as connection:
        connection.execute("CREATE TABLE healed ()")
        connection.execute(
            "UPDATE job_item SET status = 'DLQ', error_message = 'x', lease_until = NULL, leased_at = NULL"
        )
        connection.execute("UPDATE job SET dlq_items = 5, pending_items = 0, running_items = 0")
        job = jobs.find(connection, job_key)
    taken = runs.take_up(engine, job_key, "cut short", by_person=False)
    assert not taken.redriven
    with transaction(engine) as connection:
        connection.execute(
            "INSERT INTO job_run (dagster_run_id, job_id, redriving) VALUES ('a', %s, true)", [job.job_id]
        )
    again = runs.take_up(engine, job_key, "a", by_person=True)
    assert (again.redriven, again.job.status, again.first) == (5, JobState.RUNNING, False)
    assert again.job.attempts == 2
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET status = 'PAUSED'")
    assert runs.take_up(engine, job_key, "a", by_person=True).job.status is JobState.PAUSED


@pytest.mark.parametrize("in_process", [True, False])
def test_a_run_whose_partition_key_was_pruned_adds_it_again(
    engine: Engine, instance: dg.DagsterInstance, database_url: str, in_process: bool
) -> None:
    job_key = submitted(engine, instance, items=[{"do": "bury"}])
    with run(instance, database_url, job_key, in_process=True) as first:
        assert not first.success
    with transaction(engine) as connection:
        connection.execute("CREATE TABLE healed ()")
    instance.delete_dynamic_partition("echo_jobs", job_key)
    with run(instance, database_url, job_key, in_process=in_process, parent=first.run_id) as again:
        assert again.success
    assert materialized(instance, job_key)
    assert instance.has_dynamic_partition("echo_jobs", job_key)
