"""Several items at once: as many as the kind allows, fewer in trouble, and all of them ended at a stop."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.outcomes import Done, Outcome
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import Throttled
from bulk_pipelines_tests.scenes.engine_jobs import check_counters, found, kind, only, rows, running


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
