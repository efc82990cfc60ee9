"""The settler in trouble: outages are waited out, lost answers believed, and errors end the worker or bury their item
alone."""

import threading
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.items.settling import Settled
from bulk_pipelines.engine.outcomes import Bury, Done, Outcome
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.settler import Settler, SettlerFailed
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines_tests.scenes.engine_jobs import (
    WORK,
    check_counters,
    claimed,
    expire,
    found,
    kind,
    only,
    row,
    rows,
    running,
    statuses,
)
from bulk_pipelines_tests.scenes.passing_time import Clock
from bulk_pipelines_tests.scenes.settlers import LEASE, NEVER, AnswerLost, add, at_work, succeeded


def test_an_outage_is_waited_out(own_server: Server, own_pool: Engine) -> None:
    job = running(own_pool, 20)
    given = claimed(own_pool, job)
    with at_work(own_pool, job, flush_at=1, retry_seconds=0.05) as settler:
        own_server.stop_immediately()
        add(settler, given)
        own_server.start()
        settler.drain()
        assert settler.lost_count == 0
    assert succeeded(own_pool, job) == 20
    check_counters(own_pool, job)


def test_an_outage_beyond_patience_is_told_to_who_adds(own_server: Server, own_pool: Engine) -> None:
    job = running(own_pool, 2)
    one, other = claimed(own_pool, job)
    own_server.stop_immediately()
    with at_work(own_pool, job, flush_at=1, retry_seconds=0.05, outage_patience=0.1) as settler:
        add(settler, [one])
        with pytest.raises(SettlerFailed, match="cannot be used"):
            settler.drain()
        with pytest.raises(SettlerFailed):
            add(settler, [other])
        with pytest.raises(SettlerFailed):
            settler.stop()
        assert not settler.thread.is_alive()
    own_server.start()
    assert found(own_pool, job).running_items == 2, "they are rescued when their leases run out"


def test_one_who_waits_for_room_is_told_too(own_server: Server, own_pool: Engine) -> None:
    job = running(own_pool, 9)
    given = claimed(own_pool, job)
    own_server.stop_immediately()
    with (
        at_work(own_pool, job, flush_at=1, batch=1, capacity=2, retry_seconds=0.05, outage_patience=1.0) as settler,
        pytest.raises(SettlerFailed),
    ):
        add(settler, given)
    own_server.start()


def test_an_answer_that_was_lost_after_its_commit(pool: Engine) -> None:
    """The commit was done, and the connection gone before it said so: it is tried again, and is nobody's loss."""
    losing: Any = AnswerLost(pool)
    recorded: list[int] = []

    def record(connection: psycopg.Connection[Any], batch: Sequence[Settled]) -> None:
        recorded.extend(each.item_id for each in batch)

    job = running(pool, 5)
    given = claimed(pool, job)
    writer = Settler(
        losing, job.job_id, lambda: LEASE, NEVER, SettlerLimits(retry_seconds=0.01, flush_at=99), record=record
    )
    add(writer, given)
    writer.stop()
    assert losing.transactions == 2, "it was written twice"
    assert writer.lost_count == 0
    assert recorded == [lease.item_id for lease in given], "what goes with it was written once"
    assert {(each.status, each.attempt_count) for each in rows(pool, job).values()} == {(ItemState.SUCCEEDED, 1)}
    check_counters(pool, job)


def test_a_handler_that_asks_whether_to_stop_during_an_outage_goes_on(own_server: Server, own_pool: Engine) -> None:
    clock = Clock()
    answers: list[bool] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        own_server.stop_immediately()
        for _ in range(3):
            clock.now += 2
            answers.append(tools.stopping())
        own_server.start()
        return Done({"x": 1})

    kinds = only(kind(work))
    job = running(own_pool, 1, kinds=kinds)
    with Worker(own_pool, kinds, job, clock=clock) as worker:
        worker.run_once()
    assert answers == [False] * 3
    assert succeeded(own_pool, job) == 1


def test_an_error_of_the_database_ends_the_worker_and_its_threads(engine: Engine) -> None:
    def work(lease: Lease, tools: Tools) -> Outcome:
        return Done({"x": 1})

    kinds = only(kind(work, concurrency=3))
    job = running(engine, 5_000, kinds=kinds)
    with transaction(engine) as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF NEW.status = 'SUCCEEDED' THEN RAISE 'disk of the results is gone'; END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER refuse BEFORE UPDATE ON job_item FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
    limits = SettlerLimits(capacity=50, flush_at=10)
    before = threading.active_count()
    with pytest.raises(SettlerFailed, match="disk of the results is gone"):  # noqa: SIM117
        with Worker(engine, kinds, job, settler_limits=limits) as worker:
            while True:
                worker.run_once()
    assert threading.active_count() == before
    assert found(engine, job).succeeded_items == 0
    check_counters(engine, job)


def test_what_goes_with_a_success_is_written_with_it_or_not_at_all(engine: Engine) -> None:
    with transaction(engine) as connection:
        connection.execute("CREATE TABLE file (item_id bigint PRIMARY KEY)")

    def record(connection: psycopg.Connection[Any], batch: Sequence[Settled]) -> None:
        for each in batch:
            connection.execute("INSERT INTO file VALUES (%s)", [each.item_id])

    job = running(engine, 6)
    given = claimed(engine, job)
    expire(engine, given[:1])
    rescue.run_once(engine, WORK, lambda: 0.0, job.job_id)
    writer = Settler(engine, job.job_id, lambda: LEASE, NEVER, record=record)
    add(writer, given[:4])
    add(writer, given[4:], Bury("bad"))
    writer.stop()
    with transaction(engine) as connection:
        kept = {item_id for (item_id,) in connection.execute("SELECT item_id FROM file").fetchall()}
    assert kept == {lease.item_id for lease in given[1:4]}
    assert succeeded(engine, job) == 3


@pytest.mark.parametrize("error", ["python", "constraint", "value"])
def test_what_the_record_refuses_is_buried_and_the_others_are_written(pool: Engine, error: str) -> None:
    job = running(pool, 20)
    given = claimed(pool, job)

    def record(connection: psycopg.Connection[Any], batch: Sequence[Settled]) -> None:
        if any(each.item_id == given[7].item_id for each in batch):
            match error:
                case "constraint":
                    connection.execute("INSERT INTO job (kind, owner, origin, request_hash) VALUES ('x', 'x', '?', '')")
                case "value":
                    connection.execute("SELECT 'x'::int")
                case _:
                    raise KeyError("path")

    settler = Settler(pool, job.job_id, lambda: LEASE, NEVER, record=record)
    add(settler, given)
    settler.stop()
    refused = row(pool, given[7])
    assert refused.status == ItemState.DLQ
    assert str(refused.error_message).startswith("what its handler came to cannot be written: ")
    assert found(pool, job).succeeded_items == 19
    check_counters(pool, job)


def test_a_database_that_takes_nothing_buries_nothing(pool: Engine) -> None:
    job = running(pool, 3)

    def record(connection: psycopg.Connection[Any], batch: Sequence[Settled]) -> None:
        connection.execute("SELECT FROM no_such_table")

    settler = Settler(pool, job.job_id, lambda: LEASE, NEVER, record=record)
    add(settler, claimed(pool, job))
    with pytest.raises(SettlerFailed, match="no_such_table"):
        settler.stop()
    assert set(statuses(pool, job).values()) == {ItemState.RUNNING}
