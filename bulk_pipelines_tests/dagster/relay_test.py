"""The relay's ticks, evaluated as Dagster's daemon does, on a real instance."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch, jobs, redrive, runs, submission
from bulk_pipelines.engine.jobs.dispatch import DispatchLimits
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines_tests.dagster import echo_definitions

SENSOR = echo_definitions.defs.resolve_sensor_def("relay")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def submitted(engine: Engine, owner: str = "me", **params: Any) -> Job:
    with transaction(engine) as connection:
        return submission.submit(
            connection, Kinds([echo_definitions.KIND]), submission.Request("echo", owner, params)
        ).job


def tick(engine: Engine, url: str, instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    context = dg.build_sensor_context(
        instance=instance, definitions=echo_definitions.defs, resources={"database": Database(url=url)}
    )
    result = SENSOR(context)
    if not isinstance(result, dg.SensorResult):
        return []
    for request in result.dynamic_partitions_requests or []:
        instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
    return list(result.run_requests or [])


def offered(engine: Engine, limits: DispatchLimits | None = None) -> list[str]:
    with transaction(engine) as connection:
        return [offer.key for offer in dispatch.offers(connection, ["echo"], limits or DispatchLimits())]


def age_offers(engine: Engine) -> None:
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET offered_at = offered_at - interval '1 hour'")


def test_a_submitted_job_is_launched_with_its_partition(
    engine: Engine, database_url: str, instance: dg.DagsterInstance
) -> None:
    job = submitted(engine, items=[])
    (request,) = tick(engine, database_url, instance)
    assert (request.job_name, request.partition_key) == ("echo", job.job_key)
    assert request.run_key == f"{job.job_key}:0"
    assert instance.has_dynamic_partition("echo_jobs", job.job_key)
    assert tick(engine, database_url, instance) == []


def test_a_launch_that_was_lost_is_offered_again_under_the_same_key(engine: Engine) -> None:
    submitted(engine)
    first = offered(engine)
    assert offered(engine) == []
    age_offers(engine)
    assert offered(engine) == first


def test_a_job_whose_run_has_begun_is_not_offered(engine: Engine) -> None:
    job = submitted(engine)
    offered(engine)
    with transaction(engine) as connection:
        jobs.start(connection, job.job_key, "run")
    age_offers(engine)
    assert offered(engine) == []


def test_a_job_is_worked_by_the_relay_or_by_whoever_takes_it_first(engine: Engine) -> None:
    def taken(job: Job) -> bool:
        with transaction(engine) as connection:
            return dispatch.taken(connection, job.job_id)

    here, there = submitted(engine), submitted(engine)
    assert taken(here)
    assert not taken(here)
    assert offered(engine) == [f"{there.job_key}:0"]
    assert not taken(there)
    age_offers(engine)
    assert taken(there)
    assert offered(engine) == []
    with transaction(engine) as connection:
        connection.execute(
            "UPDATE job SET created_at = now() - interval '1 hour', heartbeat_at = now() - interval '1 hour'"
        )
    assert taken(here), "whoever took it has not been heard of for long"


def test_the_run_that_took_a_job_up_last_hands_it_over(engine: Engine) -> None:
    """Two runs at one job: steps of the earlier one write its id meanwhile, and do not count."""
    job = submitted(engine)
    for run in ("earlier", "later"):
        runs.take_up(engine, job.job_key, run, by_person=False)
    with transaction(engine) as connection:
        dispatch.begun(connection, job.job_id, "earlier")
        assert not dispatch.hand_over(connection, job.job_id, "earlier"), "the later one goes on"
        assert dispatch.hand_over(connection, job.job_id, "later")
        assert not dispatch.hand_over(connection, job.job_id, "later"), "another one is wanted already"


def test_a_run_that_was_terminated_in_the_queue_does_not_keep_the_job(engine: Engine) -> None:
    """The queued run never took the job up, so the run that works the job can still hand it over."""
    job = submitted(engine)
    runs.take_up(engine, job.job_key, "working", by_person=False)
    with transaction(engine) as connection:
        dispatch.begun(connection, job.job_id, "working")
        assert runs.terminate(connection, job.job_key, "queued", None)
    with transaction(engine) as connection:
        assert not dispatch.hand_over(connection, job.job_id, "queued")
        assert dispatch.hand_over(connection, job.job_id, "working")


def test_a_run_that_was_terminated_at_work_is_the_last_one_still(engine: Engine) -> None:
    job = submitted(engine)
    for run in ("earlier", "later"):
        runs.take_up(engine, job.job_key, run, by_person=False)
    with transaction(engine) as connection:
        dispatch.begun(connection, job.job_id, "later")
        assert runs.terminate(connection, job.job_key, "later", None)
    with transaction(engine) as connection:
        assert not dispatch.hand_over(connection, job.job_id, "earlier")
        assert dispatch.hand_over(connection, job.job_id, "later")


def test_a_resumed_job_wants_another_run_under_another_key(engine: Engine) -> None:
    job = submitted(engine)
    first = offered(engine)
    with transaction(engine) as connection:
        jobs.start(connection, job.job_key)
        jobs.pause(connection, job.job_key)
    assert offered(engine) == []
    with transaction(engine) as connection:
        jobs.resume(connection, job.job_key)
    second = offered(engine)
    assert len(second) == 1
    assert second != first


def test_a_job_paused_before_its_launch_waits_for_its_resume(engine: Engine) -> None:
    job = submitted(engine)
    with transaction(engine) as connection:
        jobs.pause(connection, job.job_key)
    assert offered(engine) == []
    with transaction(engine) as connection:
        jobs.resume(connection, job.job_key)
    assert len(offered(engine)) == 1


def test_a_redriven_job_wants_a_run_unless_one_redrives_it(engine: Engine) -> None:
    for run_follows in (False, True):
        job = submitted(engine)
        offered(engine)
        with transaction(engine) as connection:
            jobs.start(connection, job.job_key)
            connection.execute(
                "INSERT INTO job_item (job_id, item_key, owner, kind, status, error_message)"
                " VALUES (%s, 'a', 'me', 'echo', 'DLQ', 'bad')",
                [job.job_id],
            )
            connection.execute("UPDATE job SET total_items = 1, dlq_items = 1 WHERE job_id = %s", [job.job_id])
            jobs.fail(connection, job.job_key, "bad")
        assert redrive.redrive(engine, job.job_key, run_follows=run_follows) == 1
        assert bool(offered(engine)) is not run_follows


def test_the_urgent_come_first_and_limits_hold(engine: Engine) -> None:
    late, urgent = submitted(engine, "a"), submitted(engine, "a")
    other = submitted(engine, "b")
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET priority = 5 WHERE job_id = %s", [urgent.job_id])
    one_each = DispatchLimits(of_kind=2, of_owner=1)
    assert offered(engine, one_each) == [f"{urgent.job_key}:0", f"{other.job_key}:0"]
    assert offered(engine, one_each) == []
    with transaction(engine) as connection:
        jobs.start(connection, urgent.job_key)
    assert offered(engine, one_each) == [], "a running job keeps its place"
    jobs.cancel(engine, urgent.job_key)
    assert offered(engine, one_each) == [f"{late.job_key}:0"]


def test_no_more_of_a_kind_run_than_the_settings_say(
    engine: Engine, database_url: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_JOBS_OF_KIND", "3")
    monkeypatch.setenv("BULK_JOBS_OF_OWNER", "2")
    keys = [submitted(engine, owner).job_key for owner in ("a", "a", "a", "b", "c")]
    assert [request.partition_key for request in tick(engine, database_url, instance)] == [keys[0], keys[1], keys[3]]
    assert tick(engine, database_url, instance) == []
    jobs.cancel(engine, keys[0])
    assert [request.partition_key for request in tick(engine, database_url, instance)] == [keys[2]]


def test_thousands_of_one_owner_do_not_hide_the_others(engine: Engine) -> None:
    with transaction(engine) as connection:
        connection.execute(
            "INSERT INTO job (kind, owner, origin, request_hash)"
            " SELECT 'echo', 'a', 'api', '' FROM generate_series(1, 2500)"
        )
    other = submitted(engine, "b")
    assert f"{other.job_key}:0" in offered(engine, DispatchLimits(of_kind=10, of_owner=5))


CROWD = """
INSERT INTO job (kind, owner, origin, request_hash, priority)
SELECT 'other', 'owner' || n %% %s, 'api', '', 100 FROM generate_series(1, %s) AS n
"""


def test_a_kind_that_is_full_hides_no_other(engine: Engine) -> None:
    """However many owners wait for it, and however urgent they are."""
    with transaction(engine) as connection:
        connection.execute(CROWD, [130, 1_300])
        full = dispatch.offers(connection, ["echo", "other"], DispatchLimits(of_kind=10, of_owner=10))
    assert [offer.kind for offer in full] == ["other"] * 10
    one = submitted(engine, "somebody")
    with transaction(engine) as connection:
        (offer,) = dispatch.offers(connection, ["echo", "other"], DispatchLimits(of_kind=10, of_owner=10))
    assert offer.job_key == one.job_key


def test_a_look_reads_what_has_room_and_nothing_else(engine: Engine) -> None:
    """Four looks a second: with a hundred thousand waiting jobs of which few have room, by indexes alone."""
    submitted(engine, "somebody")
    with transaction(engine) as connection:
        connection.execute(CROWD, [100, 100_000])
        connection.execute("ANALYZE job")
        dispatch.offers(connection, ["other"], DispatchLimits(of_kind=10, of_owner=10))
    before = blocks(engine)
    with transaction(engine) as connection:
        assert dispatch.offers(connection, ["other"], DispatchLimits(of_kind=10, of_owner=10)) == []
        assert len(dispatch.offers(connection, ["other"], DispatchLimits(of_kind=20, of_owner=10))) == 10
    assert blocks(engine) - before < 5_000, "the table alone has as many pages"


def blocks(engine: Engine) -> int:
    """Pages of the table of jobs and its indexes that were read by now."""
    with transaction(engine) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
    with transaction(engine) as connection:
        row = connection.execute(
            "SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint"
            " FROM pg_statio_user_tables WHERE relname = 'job'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_priority_is_part_of_the_submission_but_not_of_what_is_asked_for(engine: Engine) -> None:
    submitted(engine, "a")
    with transaction(engine) as connection:
        for priority in (7, -7):
            request = submission.Request("echo", "a", {}, idempotency_key="k", priority=priority)
            urgent = submission.submit(connection, Kinds([echo_definitions.KIND]), request).job
    assert offered(engine)[0] == f"{urgent.job_key}:0"
    for wrong in (101, True, "1", 1.5):
        request = submission.Request("echo", "a", {}, priority=wrong)  # type: ignore[arg-type]
        with transaction(engine) as connection, pytest.raises(InvalidInput, match="priority"):
            submission.submit(connection, Kinds([echo_definitions.KIND]), request)


@pytest.mark.parametrize("by_asset", [False, True])
def test_a_job_is_not_launched_again_while_its_last_run_is_still_ending(
    engine: Engine, database_url: str, instance: dg.DagsterInstance, by_asset: bool
) -> None:
    """Paused and resumed at once: its workers may not even have noticed. Also a run that was begun at the asset."""
    job = submitted(engine)
    (first,) = tick(engine, database_url, instance)
    defs = echo_definitions.defs
    run = instance.create_run_for_job(
        defs.resolve_implicit_global_asset_job_def() if by_asset else defs.resolve_job_def("echo"),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": job.job_key},
    )
    with transaction(engine) as connection:
        jobs.start(connection, job.job_key, run.run_id)
        jobs.pause(connection, job.job_key)
        jobs.resume(connection, job.job_key)
    assert tick(engine, database_url, instance) == []
    instance.report_run_failed(run)
    assert tick(engine, database_url, instance) == [], "it is looked at again in some seconds"
    instance.add_run_tags(run.run_id, {"dagster/will_retry": "true"})
    age_offers(engine)
    assert tick(engine, database_url, instance) == [], "Dagster is about to start it again by itself"
    instance.add_run_tags(run.run_id, {"dagster/will_retry": "false"})
    with transaction(engine) as connection:
        row = connection.execute("SELECT extract(epoch FROM now() - offered_at)::float8 FROM job").fetchone()
        assert row is not None
        assert row[0] > 25
        connection.execute("UPDATE job SET offered_at = offered_at - interval '4 seconds'")
    (second,) = tick(engine, database_url, instance)
    assert (first.run_key, second.run_key) == (f"{job.job_key}:0", f"{job.job_key}:1")
