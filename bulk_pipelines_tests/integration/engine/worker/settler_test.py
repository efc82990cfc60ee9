"""The settler: batches by size and time, blocking when full, drained at the end, outages waited out, leases renewed."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, PoolProxiedConnection

from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.items.settling import Settled
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Bury, Done, Outcome
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.engine.worker.counting import Counting, Sums
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.settler import Settler, SettlerFailed
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import Unavailable
from bulk_pipelines_tests.scenes.engine_jobs import (
    WORK,
    check_counters,
    claimed,
    decided,
    expire,
    found,
    kind,
    only,
    row,
    rows,
    running,
    statuses,
)
from bulk_pipelines_tests.scenes.waiting import until

NEVER = 3_600.0
LEASE = 30.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def at_work(pool: Engine, job: Job, **limits: Any) -> Iterator[Settler]:
    made = Settler(pool, job.job_id, lambda: LEASE, NEVER, SettlerLimits(**limits))
    try:
        yield made
    finally:
        if made.failure is None:
            made.stop()


def succeeded(pool: Engine, job: Job) -> int:
    return found(pool, job).succeeded_items


def add(settler: Settler, given: Sequence[Lease], outcome: Outcome | None = None) -> None:
    for lease in given:
        settler.add(decided(lease, outcome or Done({"term": lease.lease_term})))


def test_written_when_enough_are_waiting(pool: Engine) -> None:
    job = running(pool, 10)
    given = claimed(pool, job)
    with at_work(pool, job, flush_at=10, flush_seconds=NEVER) as settler:
        add(settler, given[:9])
        assert (len(settler.buffer), succeeded(pool, job)) == (9, 0)
        add(settler, given[9:])
        until(lambda: succeeded(pool, job) == 10, "all ten are written")
    check_counters(pool, job)


def test_written_when_a_while_has_passed(pool: Engine) -> None:
    job = running(pool, 1)
    with at_work(pool, job, flush_at=1_000, flush_seconds=0.05) as settler:
        add(settler, claimed(pool, job))
        until(lambda: succeeded(pool, job) == 1, "the one is written")
        assert settler.job_status is JobState.RUNNING
        assert settler.open_items == 0


def test_drain_waits_until_all_is_written(pool: Engine) -> None:
    job = running(pool, 300)
    with at_work(pool, job, flush_at=1_000, flush_seconds=NEVER, batch=70) as settler:
        add(settler, claimed(pool, job))
        settler.drain()
        assert succeeded(pool, job) == 300
        settler.drain()


def test_stop_writes_what_is_there(pool: Engine) -> None:
    job = running(pool, 300)
    with at_work(pool, job, flush_at=1_000, flush_seconds=NEVER, batch=70) as settler:
        add(settler, claimed(pool, job))
    assert not settler.thread.is_alive()
    assert succeeded(pool, job) == 300


def test_a_full_buffer_blocks_who_adds_and_nothing_is_dropped(pool: Engine) -> None:
    job = running(pool, 60)
    given = claimed(pool, job)
    with at_work(pool, job, flush_at=5, batch=5, capacity=10) as settler, ThreadPoolExecutor(1) as executor:
        with transaction(pool) as connection:
            # The settler's statement waits for the job's row.
            connection.execute("SELECT FROM job WHERE job_id = %s FOR UPDATE", [job.job_id])
            future = executor.submit(add, settler, given)
            until(lambda: len(settler.buffer) == 10 and len(settler.writing) == 5, "the buffer is full")
            assert not future.done()
            assert len(settler.buffer) + len(settler.writing) == 15
        future.result(timeout=30)
        settler.drain()
        assert succeeded(pool, job) == 60
    check_counters(pool, job)


def test_a_lost_lease_is_counted_and_the_others_written(pool: Engine) -> None:
    job = running(pool, 3)
    given = claimed(pool, job)
    expire(pool, given[:1])
    rescue.run_once(pool, WORK, lambda: 0.0, job.job_id)
    with at_work(pool, job) as settler:
        add(settler, given)
        settler.drain()
        assert settler.lost_count == 1
    assert succeeded(pool, job) == 2
    check_counters(pool, job)


# When the database is away.


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


class AnswerLost:
    """A pool whose connection is lost once: when the first transaction is committed, before anybody hears of it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.url = engine.url
        self.transactions = 0

    def raw_connection(self) -> PoolProxiedConnection:
        self.transactions += 1
        connection = self.engine.raw_connection()
        return Losing(connection) if self.transactions == 1 else connection  # type: ignore[return-value]


class Losing:
    """A connection that is found to be lost when it is given back."""

    def __init__(self, connection: PoolProxiedConnection) -> None:
        self.connection = connection
        self.driver_connection = connection.driver_connection

    def close(self) -> None:
        self.connection.close()
        raise Unavailable("the connection is gone")


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


# When something else is wrong.


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


# Leases.


def holding(pool: Engine, size: int, clock: Clock, item_timeout: float = NEVER) -> tuple[Job, list[Lease], Settler]:
    job = running(pool, size)
    given = claimed(pool, job, seconds=LEASE)
    writer = Settler(pool, job.job_id, lambda: LEASE, item_timeout, SettlerLimits(flush_seconds=0.01), clock)
    writer.hold(given)
    return job, given, writer


def renewed(pool: Engine, lease: Lease, before: object) -> Callable[[], bool]:
    return lambda: row(pool, lease).lease_until != before


def test_leases_are_renewed_in_time(pool: Engine) -> None:
    """At a third of their length; those that are done with are left alone."""
    clock = Clock()
    job, given, writer = holding(pool, 3, clock)
    before = {lease.item_id: row(pool, lease) for lease in given}
    writer.begin(given[0])
    add(writer, given[2:])
    writer.drain()
    clock.now = LEASE / 3 - 1
    writer.flush()
    assert row(pool, given[0]).lease_until == before[given[0].item_id].lease_until
    clock.now = LEASE / 3 + 1
    for lease in given[:2]:
        until(renewed(pool, lease, before[lease.item_id].lease_until), "the lease is renewed")
        assert row(pool, lease).updated_at == before[lease.item_id].updated_at, "a renewal is no move"
    assert row(pool, given[2]).lease_until is None
    writer.stop()
    check_counters(pool, job)


def test_leases_that_were_given_while_items_were_quick_are_renewed_by_their_own_length(pool: Engine) -> None:
    """A third of the new, longer one may come after their end."""
    job = running(pool, 2)
    length = [LEASE]
    clock = Clock()
    writer = Settler(pool, job.job_id, lambda: length[0], NEVER, SettlerLimits(), clock)
    given = claimed(pool, job, seconds=LEASE)
    before = row(pool, given[0]).lease_until
    writer.hold(given)
    length[0] = 20 * LEASE
    clock.now = LEASE / 3 + 1
    until(renewed(pool, given[0], before), "the lease is renewed")
    writer.stop()


def test_a_lease_that_is_found_lost_is_not_begun(pool: Engine) -> None:
    clock = Clock()
    job, given, writer = holding(pool, 2, clock)
    expire(pool, given[:1])
    rescue.run_once(pool, WORK, lambda: 0.0, job.job_id)
    assert writer.begin(given[0]), "nobody knows yet"
    clock.now += LEASE
    until(lambda: given[0].item_id not in writer.held, "the renewal finds it out")
    assert not writer.begin(given[0])
    assert writer.begin(given[1])
    writer.stop()


def test_a_handler_that_hangs_keeps_neither_its_item_nor_those_behind_it(pool: Engine) -> None:
    clock = Clock()
    job, given, writer = holding(pool, 3, clock, item_timeout=100.0)
    before = row(pool, given[0]).lease_until
    writer.begin(given[0])
    clock.now += 101
    until(lambda: list(statuses(pool, job).values()).count(ItemState.PENDING) == 2, "the others are given back")
    assert row(pool, given[0]).lease_until == before
    assert [row(pool, lease).attempt_count for lease in given] == [1, 0, 0]
    assert not writer.begin(given[1])
    writer.stop()
    check_counters(pool, job)


def test_a_renewal_that_fails_is_tried_again(own_server: Server, own_pool: Engine) -> None:
    clock = Clock()
    _, given, writer = holding(own_pool, 1, clock)
    before = row(own_pool, given[0]).lease_until
    own_server.stop_immediately()
    clock.now += LEASE / 2
    until(lambda: writer.renewed_at == clock.now, "the renewal was tried")
    assert writer.failure is None
    own_server.start()
    clock.now += LEASE / 2
    until(renewed(own_pool, given[0], before), "the lease is renewed")
    writer.stop()


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


@pytest.mark.parametrize("settling", [SettlerLimits(2, NEVER), SettlerLimits(1_000, 0.05)], ids=["so many", "so long"])
def test_a_kind_says_when_outcomes_are_written(pool: Engine, settling: SettlerLimits) -> None:
    """The last item is still in work, so nothing else makes the settler write."""

    def work(lease: Lease, tools: Tools) -> Outcome:
        if lease.item_key == "k0002":
            until(lambda: list(statuses(pool, job).values()).count("SUCCEEDED") == 2, "both are written", seconds=20)
        return Done()

    kinds = only(kind(work, settling=settling))
    job = running(pool, 3, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert worker.run_once().tally.done == 3


def counted(pool: Engine, job: Job) -> dict[str, int]:
    with transaction(pool) as connection:
        return dict(connection.execute("SELECT name, count FROM counted WHERE job_id = %s", [job.job_id]).fetchall())


def count(connection: psycopg.Connection[Any], job_id: int, sums: Sums) -> None:
    for (name,), (amount,) in sums.items():
        connection.execute(
            "INSERT INTO counted VALUES (%s, %s, %s)"
            " ON CONFLICT (job_id, name) DO UPDATE SET count = counted.count + excluded.count",
            [job_id, name, int(amount)],
        )


@pytest.fixture
def counting(pool: Engine) -> Iterator[Counting]:
    job = running(pool, 10)
    with transaction(pool) as connection:
        connection.execute("CREATE TABLE counted (job_id bigint, name text, count int, PRIMARY KEY (job_id, name))")
    yield Counting(job.job_id, count)
    with transaction(pool) as connection:
        connection.execute("DROP TABLE counted")


def job_of(pool: Engine, counting: Counting) -> Job:
    with transaction(pool) as connection:
        row = connection.execute("SELECT job_key FROM job WHERE job_id = %s", [counting.job_id]).fetchone()
        assert row is not None
        return jobs.find(connection, row[0])


def test_counts_are_written_with_the_items_and_no_others(pool: Engine, counting: Counting) -> None:
    """Counts of a batch that is not written go with the next one; when nothing more comes, they go alone."""
    job = job_of(pool, counting)
    given = claimed(pool, job)
    settler = Settler(
        pool, job.job_id, lambda: LEASE, NEVER, SettlerLimits(flush_at=1, flush_seconds=0.01), counting=counting
    )
    counting.add(("asked",), 3)
    counting.add(("asked",), 4)
    add(settler, given[:1])
    settler.drain()
    assert counted(pool, job) == {"asked": 7}
    expire(pool, given[1:2])
    rescue.run_once(pool, WORK, lambda: 0.0)
    counting.add(("asked",), 1)
    counting.add(("told",), 1)
    add(settler, given[1:2])
    settler.drain()
    assert settler.lost_count == 1
    assert counted(pool, job) == {"asked": 7}, "nothing was settled"
    add(settler, given[2:3])
    settler.drain()
    assert counted(pool, job) == {"asked": 8, "told": 1}
    counting.add(("told",), 5)
    settler.stop()
    assert counted(pool, job) == {"asked": 8, "told": 6}


def test_counts_are_written_once_though_the_answer_to_the_commit_is_lost(pool: Engine, counting: Counting) -> None:
    job = job_of(pool, counting)
    given = claimed(pool, job)
    settler = Settler(
        pool, job.job_id, lambda: LEASE, NEVER, SettlerLimits(flush_at=2, flush_seconds=NEVER, retry_seconds=0.01),
        counting=counting,
    )  # fmt: skip
    lost = [0]

    def lose(connection: psycopg.Connection[Any], job_id: int, sums: Sums) -> None:
        count(connection, job_id, sums)
        lost[0] += 1
        if lost[0] == 1:
            connection.execute("COMMIT")
            raise psycopg.OperationalError("the connection is gone, and nobody knows whether it was committed")
        if lost[0] == 2:
            raise psycopg.OperationalError("the connection is gone")

    counting.write_sums = lose
    for pair in (given[:2], given[2:4]):
        counting.add(("asked",), 2)
        add(settler, pair)
        settler.drain()
    settler.stop()
    assert counted(pool, job) == {"asked": 4}
    assert succeeded(pool, job) == 4
