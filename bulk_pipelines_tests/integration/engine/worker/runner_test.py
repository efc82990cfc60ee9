"""A worker's slices: how long they last, what is left of them, what a handler's answer or exception comes to."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import LeaseLost
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip, Unfinished
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import ErrorClass, Permanent, Throttled, Transient
from bulk_pipelines_tests.scenes.engine_jobs import (
    check_counters,
    expire,
    found,
    kind,
    make_due,
    only,
    rows,
    running,
    statuses,
    submitted,
)


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def taking(clock: Clock, seconds: float) -> Callable[[Lease, Tools], Outcome]:
    def work(lease: Lease, tools: Tools) -> Outcome:
        clock.pass_by(seconds)
        return Done({"term": lease.lease_term})

    return work


def count(pool: Engine, job: Job, state: ItemState) -> int:
    return list(statuses(pool, job).values()).count(state)


# How long, and how much.


def test_a_slice_ends_at_its_time_and_the_next_goes_on_with_what_is_left(pool: Engine) -> None:
    clock = Clock()
    kinds = only(kind(taking(clock, 1.0), slices=SliceLimits(target_seconds=5, first_claim=12)))
    job = running(pool, 30, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        first = worker.run_once()
        assert (first.claimed, first.tally.total, first.left, first.seconds) == (12, 5, 7, 5.0)
        second = worker.run_once()
        assert (second.claimed, second.tally.total, second.left) == (0, 5, 2)
        third = worker.run_once()
        assert (third.claimed, third.tally.total, third.left) == (0, 2, 0)
        # By now it knows that an item takes a second: 0.7 of what would fit.
        assert worker.run_once().claimed == 3
        worker.settler.drain()
        assert count(pool, job, ItemState.SUCCEEDED) == 15
        check_counters(pool, job)


def test_quick_items_are_claimed_by_the_thousand(pool: Engine) -> None:
    clock = Clock()
    kinds = only(kind(taking(clock, 0.001), slices=SliceLimits(first_claim=16, max_claim=1_000)))
    job = running(pool, 1_500, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        assert [worker.run_once().claimed for _ in range(4)] == [16, 1_000, 484, 0]


def test_a_slice_can_be_cut_short(pool: Engine) -> None:
    clock = Clock()
    kinds = only(kind(taking(clock, 1.0), slices=SliceLimits(target_seconds=60)))
    job = running(pool, 10, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        assert worker.run_once(until=clock.now + 3).tally.total == 3


def test_leaving_gives_back_what_was_not_begun_and_costs_it_nothing(pool: Engine) -> None:
    clock = Clock()
    kinds = only(kind(taking(clock, 1.0), slices=SliceLimits(target_seconds=2, first_claim=10)))
    job = running(pool, 10, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        assert worker.run_once().left == 8
        worker.settler.drain()
        assert found(pool, job).running_items == 8
    left = [row for row in rows(pool, job).values() if row.status == ItemState.PENDING]
    assert [(row.attempt_count, row.lease_until) for row in left] == [(0, None)] * 8
    assert found(pool, job).succeeded_items == 2
    check_counters(pool, job)


@pytest.mark.parametrize(
    ("act", "left_in"), [(jobs.pause, ItemState.PENDING), (None, ItemState.CANCELLED)], ids=["pause", "cancel"]
)
def test_at_the_slice_border_it_sees(pool: Engine, act: Callable[..., object] | None, left_in: ItemState) -> None:
    clock = Clock()
    kinds = only(kind(taking(clock, 1.0), slices=SliceLimits(target_seconds=2, first_claim=8)))
    job = running(pool, 10, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        assert worker.run_once().left == 6
        if act is None:
            jobs.cancel(pool, job.job_key)
        else:
            with transaction(pool) as connection:
                act(connection, job.job_key)
        assert worker.run_once().idle
        worker.settler.drain()
        assert count(pool, job, left_in) == 8
        assert count(pool, job, ItemState.SUCCEEDED) == 2
        assert worker.run_once().idle
    check_counters(pool, job)


def test_stop_ends_it_at_the_next_item(pool: Engine) -> None:
    seen: list[str] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        seen.append(lease.item_key)
        if len(seen) == 3:
            worker.stop()
        return Done()

    kinds = only(kind(work))
    job = running(pool, 10, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert worker.run_once().tally.total == 3
    assert count(pool, job, ItemState.PENDING) == 7
    assert {row.attempt_count for row in rows(pool, job).values() if row.status == ItemState.PENDING} == {0}


def test_one_that_is_interrupted_in_an_item_gives_it_to_others_at_the_cost_of_an_attempt(pool: Engine) -> None:
    def work(lease: Lease, tools: Tools) -> Outcome:
        raise KeyboardInterrupt

    kinds = only(kind(work))
    job = running(pool, 3, kinds=kinds)
    with pytest.raises(KeyboardInterrupt), Worker(pool, kinds, job) as worker:
        worker.run_once()
    found_rows = list(rows(pool, job).values())
    assert [row.status for row in found_rows] == [ItemState.RETRY_WAIT, ItemState.PENDING, ItemState.PENDING]
    assert [row.attempt_count for row in found_rows] == [1, 0, 0]
    assert found_rows[0].error_message == "its worker was stopped in the middle"
    check_counters(pool, job)


# Long items.


def in_parts(clock: Clock, parts: int, between: Callable[[int], None]) -> Callable[[Lease, Tools], Outcome]:
    def work(lease: Lease, tools: Tools) -> Outcome:
        first = (lease.checkpoint or {"next": 0})["next"]
        for part in range(first, parts):
            between(part)
            clock.pass_by(2)
            with transaction(tools.pool) as connection:
                tools.hold(connection, lease)
                tools.checkpoint(connection, lease, {"next": part + 1})
            if tools.stopping() and part + 1 < parts:
                return Unfinished()
        return Done({"parts": parts, "began_at": first})

    return work


def test_a_long_item_stops_at_a_checkpoint_and_is_gone_on_with(pool: Engine) -> None:
    clock = Clock()

    def pause_at_three(part: int) -> None:
        if part == 3 and found(pool, job).status is JobState.RUNNING:
            with transaction(pool) as connection:
                jobs.pause(connection, job.job_key)

    kinds = only(kind(in_parts(clock, 10, pause_at_three)))
    job = running(pool, 1, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        worker.run_once()
        assert worker.run_once().idle
    (row,) = rows(pool, job).values()
    assert (row.status, row.checkpoint, row.attempt_count) == (ItemState.PENDING, {"next": 4}, 0)
    assert found(pool, job).status is JobState.PAUSED
    with transaction(pool) as connection:
        jobs.resume(connection, job.job_key)
    goes_on = only(kind(in_parts(clock, 10, lambda part: None)))
    with Worker(pool, goes_on, job, clock=clock) as worker:
        worker.run_once()
    (row,) = rows(pool, job).values()
    assert (row.status, row.result) == (ItemState.SUCCEEDED, {"parts": 10, "began_at": 4})


@pytest.mark.parametrize(("what", "left_in"), [("cancel", ItemState.CANCELLED), ("stop", ItemState.PENDING)])
def test_a_long_item_sees_that_it_is_called_off(pool: Engine, what: str, left_in: ItemState) -> None:
    clock = Clock()

    def call_off(part: int) -> None:
        if part == 1 and what == "stop":
            worker.stop()
        elif part == 1:
            jobs.cancel(pool, job.job_key)

    kinds = only(kind(in_parts(clock, 10, call_off)))
    job = running(pool, 1, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        worker.run_once()
    (row,) = rows(pool, job).values()
    assert (row.status, row.checkpoint) == (left_in, {"next": 2})
    check_counters(pool, job)


def test_a_worker_that_was_made_before_the_job_was_started_does_not_stop_at_once(pool: Engine) -> None:
    answers: list[bool] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        answers.append(tools.stopping())
        return Done()

    kinds = only(kind(work))
    job = submitted(pool, 1, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert worker.run_once().idle
        with transaction(pool) as connection:
            jobs.start(connection, job.job_key)
        worker.run_once()
    assert answers == [False]


def test_an_item_that_got_on_has_its_tries_anew(pool: Engine) -> None:
    """Its last attempt wrote a checkpoint and then failed: that is not the end of it."""

    def work(lease: Lease, tools: Tools) -> Outcome:
        if lease.attempt_count == 2:
            with transaction(tools.pool) as connection:
                tools.checkpoint(connection, lease, {"at": (lease.checkpoint or {"at": 0})["at"] + 1})
        raise Transient("reset")

    kinds = only(kind(work, retry=RetryPolicy(max_attempts=2)))
    job = running(pool, 1, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        for _ in range(6):
            worker.run_once()
            worker.settler.drain()
            make_due(pool, job)
    (row,) = rows(pool, job).values()
    assert (row.status, row.checkpoint) == (ItemState.RETRY_WAIT, {"at": 5})


def test_a_checkpoint_that_was_not_committed_gives_no_tries(pool: Engine) -> None:
    """Else an item whose data never commit would be tried for ever."""

    def work(lease: Lease, tools: Tools) -> Outcome:
        with transaction(tools.pool) as connection:
            tools.checkpoint(connection, lease, {"at": 1})
            connection.execute("SELECT 1 / 0")
        return Done()

    kinds = only(kind(work, retry=RetryPolicy(max_attempts=2)))
    job = running(pool, 1, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        for _ in range(2):
            worker.run_once()
            worker.settler.drain()
            make_due(pool, job)
    (row,) = rows(pool, job).values()
    assert (row.status, row.checkpoint) == (ItemState.DLQ, None)


# What a handler says.


def failing(error: Exception) -> Callable[[Lease, Tools], Outcome]:
    def work(lease: Lease, tools: Tools) -> Outcome:
        raise error

    return work


def answering(answer: Any) -> Callable[[Lease, Tools], Outcome]:
    return lambda lease, tools: answer


@pytest.mark.parametrize(
    ("handle", "status", "error_class", "message"),
    [
        (answering(Done({"a": 1})), ItemState.SUCCEEDED, None, None),
        (answering(Skip("a draft")), ItemState.SKIPPED, None, "a draft"),
        (answering(Bury("no such column")), ItemState.DLQ, "permanent", "no such column"),
        (answering(RetryLater("away")), ItemState.RETRY_WAIT, "transient", "away"),
        (answering(NotFound("no page")), ItemState.RETRY_WAIT, "not_found", "no page"),
        (failing(Transient("reset")), ItemState.RETRY_WAIT, "transient", "reset"),
        (failing(Throttled("429", 60)), ItemState.RETRY_WAIT, "throttled", "429"),
        (failing(Permanent("400")), ItemState.DLQ, "permanent", "400"),
        (failing(ValueError("odd\0one")), ItemState.RETRY_WAIT, "unknown", "ValueError: odd\ufffdone"),
        (failing(RecursionError("\ud800")), ItemState.RETRY_WAIT, "unknown", "RecursionError: ?"),
        (answering(None), ItemState.DLQ, "permanent", "NoneType"),
        (answering({"a": 1}), ItemState.DLQ, "permanent", "dict"),
        (answering(Done({"a": float("nan")})), ItemState.DLQ, "permanent", "result"),
        (answering(Done({"a": object()})), ItemState.DLQ, "permanent", "result"),
        (answering(Done({"a": "x" * 2_000_000})), ItemState.DLQ, "permanent", "result"),
        (answering(Done({}, {"a": "b\0"})), ItemState.DLQ, "permanent", "normalized"),
        (answering(Done([1, 2])), ItemState.DLQ, "permanent", "result"),  # type: ignore[arg-type]
        (answering(RetryLater("x", after=float("inf"))), ItemState.RETRY_WAIT, "transient", "x"),
    ],
)
def test_what_a_handler_comes_to_and_its_neighbours_do_not_suffer(
    pool: Engine,
    handle: Callable[[Lease, Tools], Outcome],
    status: ItemState,
    error_class: str | None,
    message: str | None,
) -> None:
    def work(lease: Lease, tools: Tools) -> Outcome:
        return handle(lease, tools) if lease.item_key == "k0001" else Done({"n": lease.input["n"]})

    kinds = only(kind(work))
    job = running(pool, 3, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert worker.run_once().tally.total == 3
    found_rows = rows(pool, job)
    row = found_rows["k0001"]
    assert (row.status, row.error_class) == (status, error_class)
    if message is not None:
        assert message in str(row.error_message)
    assert [found_rows[key].result for key in ("k0000", "k0002")] == [{"n": 0}, {"n": 2}]
    check_counters(pool, job)


def test_retry_after_is_when_it_is_due(pool: Engine) -> None:
    kinds = only(kind(failing(Throttled("429", 120))))
    job = running(pool, 1, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        worker.run_once()
    with transaction(pool) as connection:
        (wait,) = connection.execute(  # type: ignore[misc]
            "SELECT extract(epoch FROM due_at - updated_at)::float8 FROM job_item WHERE job_id = %s", [job.job_id]
        ).fetchone()
    assert wait == pytest.approx(120, abs=0.001)


def test_a_lease_that_is_lost_on_the_way_is_dropped(pool: Engine) -> None:
    caught: list[type[Exception]] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        if lease.lease_term == 1:
            expire(pool, [lease])
            rescue.run_once(pool, kinds, lambda: 0.0, job.job_id)
        try:
            with transaction(tools.pool) as connection:
                tools.hold(connection, lease)
        except LeaseLost as lost:
            caught.append(type(lost))
            raise
        return Done({"term": lease.lease_term})

    kinds = only(kind(work))
    job = running(pool, 1, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        worker.run_once()
        worker.settler.drain()
        (row,) = rows(pool, job).values()
        assert (row.status, row.lease_term, row.death_count) == (ItemState.RETRY_WAIT, 2, 1)
        assert worker.settler.lost_count == 1
        worker.run_once()
    (row,) = rows(pool, job).values()
    assert (row.status, row.result) == (ItemState.SUCCEEDED, {"term": 3})
    assert caught == [LeaseLost]
    check_counters(pool, job)


# Preparing a whole claim.


def test_a_claim_is_prepared_at_once_and_its_items_see_it(pool: Engine) -> None:
    calls: list[int] = []

    def prepare(claimed: Sequence[Lease], tools: Tools) -> None:
        calls.append(len(claimed))
        tools.prepared = {lease.item_id: lease.item_key.upper() for lease in claimed}

    def work(lease: Lease, tools: Tools) -> Outcome:
        return Done({"prepared": tools.prepared[lease.item_id]})

    kinds = only(kind(work, prepare=prepare, slices=SliceLimits(first_claim=4, max_claim=4)))
    job = running(pool, 8, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert [worker.run_once().claimed for _ in range(3)] == [4, 4, 0]
    assert calls == [4, 4]
    assert {key: row.result for key, row in rows(pool, job).items()} == {
        key: {"prepared": key.upper()} for key in rows(pool, job)
    }


def test_a_preparation_that_fails_is_the_outcome_of_its_items(pool: Engine) -> None:
    def prepare(claimed: Sequence[Lease], tools: Tools) -> None:
        raise Throttled("429", retry_after=30)

    kinds = only(kind(answering(Done()), prepare=prepare))
    job = running(pool, 6, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        slice_ = worker.run_once()
        assert (slice_.claimed, slice_.left, slice_.idle) == (6, 0, False)
        assert (slice_.tally.total, slice_.tally.throttled) == (6, 6)
        assert worker.pace.pressure.level == 0.5, "the other side asked for less"
    found_rows = rows(pool, job).values()
    assert {(row.status, row.error_class, row.attempt_count) for row in found_rows} == {
        (ItemState.RETRY_WAIT, ErrorClass.THROTTLED, 1)
    }
    check_counters(pool, job)


# Several items at once.


class Side:
    """How many are at work at once; each waits until so many others are there with it."""

    def __init__(self, together: int) -> None:
        self.barrier = threading.Barrier(together)
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __enter__(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.barrier.wait(timeout=30)

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.now -= 1


def side_by_side(handle: Callable[[Lease, Tools], Outcome], claim: int) -> Kinds:
    limits = SliceLimits(first_claim=claim, min_claim=claim, max_claim=claim, target_seconds=60)
    return only(kind(handle, concurrency=4, slices=limits))


def test_several_items_are_worked_side_by_side_and_no_more(pool: Engine) -> None:
    side = Side(4)

    def work(lease: Lease, tools: Tools) -> Outcome:
        with side:
            return Done({"n": lease.input["n"]})

    kinds = side_by_side(work, 12)
    job = running(pool, 12, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert worker.run_once().tally.total == 12
    assert side.most == 4
    assert {row.result["n"] for row in rows(pool, job).values() if row.result} == set(range(12))
    check_counters(pool, job)


def test_trouble_means_fewer_side_by_side_and_calm_brings_them_back(pool: Engine) -> None:
    at_once: list[int] = []
    side = Side(4)
    trouble = threading.Event()
    trouble.set()

    def work(lease: Lease, tools: Tools) -> Outcome:
        with side:
            if trouble.is_set():
                raise Throttled("429", retry_after=0)
            return Done()

    kinds = side_by_side(work, 12)
    job = running(pool, 24, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        for together in (4, 2, 1):
            side = Side(together)
            assert worker.run_once().tally.throttled == 12
            at_once.append(side.most)
            worker.settler.drain()
        assert worker.pace.pressure.level == 0.125
        assert worker.pace.pressure.spacing == 8
        trouble.clear()
        side = Side(1)
        worker.run_once()
        assert worker.pace.pressure.level == pytest.approx(0.225)
    assert at_once == [4, 2, 1]


def test_a_stop_waits_for_those_at_work_and_gives_back_the_rest(pool: Engine) -> None:
    side = Side(4)

    def work(lease: Lease, tools: Tools) -> Outcome:
        with side:
            worker.stop()
            return Done()

    kinds = side_by_side(work, 12)
    job = running(pool, 12, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert worker.run_once().tally.total == 4
    assert found(pool, job).succeeded_items == 4
    assert {row.attempt_count for row in rows(pool, job).values() if row.status == ItemState.PENDING} == {0}
    check_counters(pool, job)
