"""A worker's slices: how long they last, what is left of them, what a handler's answer or exception comes to."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.outcomes import Done, Outcome
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines_tests.scenes.engine_jobs import check_counters, count, found, kind, only, rows, running
from bulk_pipelines_tests.scenes.passing_time import Clock, taking


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
