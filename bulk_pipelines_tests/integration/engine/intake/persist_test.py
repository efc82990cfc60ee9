"""Inputs into the database: in batches that find their size, all of them once, whatever comes between."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool as pools
from bulk_pipelines.database import queries
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer, Reason
from bulk_pipelines.engine.intake.persist import Item, Patience
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Request
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines.errors import Conflict, InvalidInput, Unavailable
from bulk_pipelines_tests.scenes.engine_jobs import (
    WORK,
    check_counters,
    found,
    inputs,
    rows,
    submitted,
    waiting_for_locks,
)
from bulk_pipelines_tests.scenes.waiting import until


def sizer(**limits: Any) -> BatchSizer:
    return BatchSizer.within(BatchLimits(**limits))


def steps(pool: Engine, job: Job) -> list[tuple[int, int, int, int, str]]:
    query = "SELECT step, row_count, byte_count::int, next_rows, reason FROM batch_step WHERE job_id = %s ORDER BY step"
    with transaction(pool) as connection:
        return connection.execute(query, [job.job_id]).fetchall()


def test_all_of_them_in_growing_batches_that_are_recorded(pool: Engine) -> None:
    job = submitted(pool)
    mine = sizer(start_rows=64, quick_seconds=30, slow_seconds=60, waited_seconds=60)
    assert persist.add_items(pool, job.job_id, inputs(1_000), mine) == 1_000
    assert [each.input["n"] for each in rows(pool, job).values()] == list(range(1_000))
    assert [row_count for _, row_count, *_ in steps(pool, job)] == [64, 128, 256, 512, 40]
    assert [next_rows for *_, next_rows, _ in steps(pool, job)] == [128, 256, 512, 1024, 1024]
    assert [step for step, *_ in steps(pool, job)] == [1, 2, 3, 4, 5]
    assert [step.next_rows for step in mine.steps] == [128, 256, 512, 1024, 1024]
    assert found(pool, job).total_items == 1_000
    check_counters(pool, job)


def test_a_slow_database_gets_less(pool: Engine) -> None:
    job = submitted(pool)
    # Opened, connected, written: three looks at the clock and a failure's one; each batch takes two seconds.
    ticking = itertools.count(0, 2)
    mine = sizer(start_rows=64, min_rows=4, waited_seconds=60)
    persist.add_items(pool, job.job_id, inputs(100), mine, Patience(clock=lambda: float(next(ticking))))
    assert [step.reason for step in mine.steps[:3]] == [Reason.SLOW] * 3
    assert [row_count for _, row_count, *_ in steps(pool, job)][:3] == [64, 32, 4]
    assert found(pool, job).total_items == 100


def test_bounded_by_bytes(pool: Engine) -> None:
    job = submitted(pool)
    mine = sizer(start_rows=1_000, max_bytes=10_000)
    given: list[Item] = [(f"k{number:03}", {"text": "é" * 500}) for number in range(50)]
    assert persist.add_items(pool, job.job_id, given, mine) == 50
    each = len("k000") + len('{"text":""}') + 1_000
    assert [row_count for _, row_count, *_ in steps(pool, job)] == [10, 10, 10, 10, 10]
    assert {byte_count for _, _, byte_count, *_ in steps(pool, job)} == {10 * each}, "bytes, not letters"


def test_one_item_may_be_larger_than_a_batch(pool: Engine) -> None:
    job = submitted(pool)
    given: list[Item] = [(f"k{number}", {"text": "x" * 5_000}) for number in range(3)]
    assert persist.add_items(pool, job.job_id, given, sizer(max_bytes=1_000)) == 3


def test_a_plan_that_was_cut_short_is_run_again(pool: Engine) -> None:
    job = submitted(pool)

    def cut() -> Iterator[Item]:
        yield from inputs(200)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        persist.add_items(pool, job.job_id, cut(), sizer())
    there = found(pool, job).total_items
    assert 0 < there < 200
    before = steps(pool, job)
    assert persist.add_items(pool, job.job_id, inputs(300), sizer()) == 300 - there
    assert persist.add_items(pool, job.job_id, inputs(300), sizer()) == 0
    assert len(rows(pool, job)) == 300
    assert steps(pool, job)[: len(before)] == before
    assert sum(row_count for _, row_count, *_ in steps(pool, job)) == sum(row[1] for row in before) + 600
    check_counters(pool, job)


def test_a_key_that_is_there_keeps_its_input(pool: Engine) -> None:
    job = submitted(pool, [("k", {"first": True})])
    assert (
        persist.add_items(pool, job.job_id, [("k", {"second": True}), ("l", {}), ("l", {"twice": True})], sizer()) == 1
    )
    assert {key: row.input for key, row in rows(pool, job).items()} == {"k": {"first": True}, "l": {}}
    check_counters(pool, job)


def test_a_bad_item_stops_its_batch_and_leaves_those_before(pool: Engine) -> None:
    job = submitted(pool)
    given: list[Any] = [*inputs(64), ("good", {}), ("bad", {"x": float("nan")}), ("never reached", {})]
    with pytest.raises(InvalidInput, match=r"^items\[65\]\.input: "):
        persist.add_items(pool, job.job_id, given, sizer(start_rows=64))
    assert len(rows(pool, job)) == 64
    check_counters(pool, job)


def test_several_add_at_once(pool: Engine) -> None:
    """Overlapping keys, one job: each item once, and the counters right."""
    job = submitted(pool)

    def add(part: int) -> int:
        return persist.add_items(pool, job.job_id, inputs(600)[part * 100 : part * 100 + 300], sizer(start_rows=64))

    with ThreadPoolExecutor(4) as executor:
        assert sum(executor.map(add, range(4))) == 600
    assert len(rows(pool, job)) == 600
    check_counters(pool, job)


def test_nothing_comes_after_the_seal(pool: Engine) -> None:
    job = submitted(pool, 5)
    with transaction(pool) as connection:
        jobs.seal(connection, job.job_id)
        sealed = jobs.find(connection, job.job_key).planned_at
        jobs.seal(connection, job.job_id)
        assert jobs.find(connection, job.job_key).planned_at == sealed
    with pytest.raises(Conflict, match="items: the job is over or has all its items already; nothing was added"):
        persist.add_items(pool, job.job_id, [("late", {})], sizer())
    assert len(rows(pool, job)) == 5
    check_counters(pool, job)


@pytest.mark.parametrize("act", ["seal", "cancel"])
def test_a_batch_that_meets_the_seal_is_in_or_out(pool: Engine, act: str) -> None:
    """Sealed, or cancelled, by somebody who has not committed yet: the batch waits, and is not added."""
    job = submitted(pool, 5)
    with ThreadPoolExecutor(1) as executor:
        with transaction(pool) as connection:
            if act == "seal":
                jobs.seal(connection, job.job_id)
            else:
                jobs.move(connection, job.job_key, JobEvent.CANCEL)
            future = executor.submit(persist.add_items, pool, job.job_id, [("late", {})], sizer())
            until(lambda: waiting_for_locks(pool) == 1, "the batch waits for the job's row")
        with pytest.raises(Conflict):
            future.result(timeout=30)
    assert len(rows(pool, job)) == 5
    check_counters(pool, job)


def test_a_job_that_is_not_there(pool: Engine) -> None:
    with pytest.raises(Conflict):
        persist.add_items(pool, 10**15, [("k", {})], sizer())


def test_all_at_once_with_the_job(pool: Engine) -> None:
    with transaction(pool) as connection:
        job = submission.submit(connection, WORK, Request("work", "me", {})).job
        assert persist.copy_all(connection, job.job_id, persist.checked(inputs(300))) == 300
    whole = found(pool, job)
    assert (whole.total_items, whole.pending_items) == (300, 300)
    assert whole.planned_at is not None
    row = rows(pool, job)["k0007"]
    assert (row.status, row.input, row.attempt_count) == ("PENDING", {"n": 7}, 0)
    check_counters(pool, job)
    with pytest.raises(Conflict), transaction(pool) as connection:
        persist.copy_all(connection, job.job_id, persist.checked(inputs(1)))


def test_a_job_can_be_beaten_for_and_paused_while_its_items_come_slowly(pool: Engine) -> None:
    job = submitted(pool)
    with transaction(pool) as connection:
        jobs.start(connection, job.job_key)

    def slow() -> Iterator[Item]:
        yield "first", {}
        with transaction(pool) as beside:
            beside.execute("SET LOCAL lock_timeout = '2s'")
            beside.execute(queries.text("dispatch", "beat"), {"job_id": job.job_id})
            jobs.pause(beside, job.job_key)
        yield "last", {}

    with transaction(pool) as connection:
        assert persist.copy_all(connection, job.job_id, persist.checked(slow())) == 2
    after = found(pool, job)
    assert (after.status, after.total_items, after.planned_at is None) == (JobState.PAUSED, 2, False)
    check_counters(pool, job)


@pytest.mark.parametrize("key", ["same", "other"])
def test_of_two_who_copy_all_items_at_once_one_is_told(pool: Engine, key: str) -> None:
    job = submitted(pool)

    def late() -> Iterator[Item]:
        with transaction(pool) as beside:
            persist.copy_all(beside, job.job_id, persist.checked([("same", {"n": 1})]))
        yield key, {"n": 2}

    with pytest.raises(Conflict, match="nothing was added"), transaction(pool) as connection:
        persist.copy_all(connection, job.job_id, persist.checked(late()))
    assert {key: row.input for key, row in rows(pool, job).items()} == {"same": {"n": 1}}
    check_counters(pool, job)


def test_a_job_that_is_cancelled_while_its_items_come_gets_none(pool: Engine) -> None:
    job = submitted(pool)

    def slow() -> Iterator[Item]:
        yield "first", {}
        with transaction(pool) as beside:
            beside.execute("SET LOCAL lock_timeout = '2s'")
            jobs.move(beside, job.job_key, JobEvent.CANCEL)

    with pytest.raises(Conflict, match="nothing was added"), transaction(pool) as connection:
        persist.copy_all(connection, job.job_id, persist.checked(slow()))
    assert rows(pool, job) == {}


def test_all_or_nothing_with_the_job(pool: Engine) -> None:
    with pytest.raises(InvalidInput, match=r"^items\[1\]\.key: "), transaction(pool) as connection:
        job = submission.submit(connection, WORK, Request("work", "all or nothing", {})).job
        persist.copy_all(connection, job.job_id, persist.checked([("k", {}), ("", {})]))
    with transaction(pool) as connection:
        assert connection.execute("SELECT count(*) FROM job WHERE owner = 'all or nothing'").fetchone() == (0,)


def test_text_that_copy_could_take_for_its_own(pool: Engine) -> None:
    odd = {"tab\t": "new\nline", "\\": "\\N", "quote'": '"', "cr\r": "\\."}
    with transaction(pool) as connection:
        job = submission.submit(connection, WORK, Request("work", "me", {})).job
        persist.copy_all(connection, job.job_id, persist.checked([("\\N", odd), ("a\tb\nc", {})]))
    assert {key: row.input for key, row in rows(pool, job).items()} == {"\\N": odd, "a\tb\nc": {}}


# When the database is away.


def test_an_outage_is_waited_out_with_smaller_batches(own_server: Server, own_pool: Engine) -> None:
    job = submitted(own_pool)
    slept: list[float] = []

    def come_back(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            own_server.start()

    def given() -> Iterator[Item]:
        yield from inputs(1_500)[:600]
        own_server.stop_immediately()
        yield from inputs(1_500)[600:]

    mine = sizer(start_rows=512, quick_seconds=0)
    assert (
        persist.add_items(own_pool, job.job_id, given(), mine, Patience(sleep=come_back, random=lambda: 0.5)) == 1_500
    )
    assert slept == [0.25, 0.5]
    assert [step.reason for step in mine.steps].count(Reason.FAILED) == 2
    assert [reason for *_, reason in steps(own_pool, job)] == [str(step.reason) for step in mine.steps]
    assert [row_count for _, row_count, *_ in steps(own_pool, job)][:4] == [512, 512, 128, 64]
    assert len(rows(own_pool, job)) == 1_500
    check_counters(own_pool, job)


def test_an_outage_without_end_is_told(own_server: Server, own_pool: Engine) -> None:
    job = submitted(own_pool)
    own_server.stop()
    slept: list[float] = []
    with pytest.raises(Unavailable):
        persist.add_items(own_pool, job.job_id, inputs(5), sizer(), Patience(sleep=slept.append, random=lambda: 1.0))
    assert slept == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    own_server.start()
    assert persist.add_items(own_pool, job.job_id, inputs(5), sizer()) == 5


def test_those_who_lost_the_database_together_come_back_apart(own_server: Server, own_pool: Engine) -> None:
    job = submitted(own_pool)
    own_server.stop()
    slept: list[list[float]] = [[], []]
    for each in slept:
        with pytest.raises(Unavailable):
            persist.add_items(own_pool, job.job_id, inputs(5), sizer(), Patience(sleep=each.append))
    assert not set(slept[0]) & set(slept[1])
    bounds = [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert all(0 <= delay <= most for each in slept for delay, most in zip(each, bounds, strict=True))


def test_a_pool_that_is_short_of_connections_gets_less(pool_url: str, pool: Engine) -> None:
    job = submitted(pool)
    narrow = pools.connect(pool_url, size=1, timeout=10)
    mine = sizer(start_rows=64, min_rows=16, quick_seconds=0)
    with ThreadPoolExecutor(1) as executor:
        with transaction(narrow):
            future = executor.submit(persist.add_items, narrow, job.job_id, inputs(100), mine)
            with pytest.raises(TimeoutError):
                future.result(timeout=0.3)
        assert future.result(timeout=30) == 100
    assert mine.steps[0].reason is Reason.WAITED
    assert mine.steps[1].sample.rows == 32
    narrow.dispose()
