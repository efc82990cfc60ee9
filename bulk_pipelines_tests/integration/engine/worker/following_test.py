"""Handlers that ask for the item behind theirs, to begin with it early."""

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.outcomes import Done, Outcome
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines_tests.scenes.engine_jobs import (
    WORK,
    check_counters,
    claimed,
    count,
    drained,
    expire,
    found,
    kind,
    only,
    rows,
    running,
)

ONE_BY_ONE = SliceLimits(min_claim=1, max_claim=1, first_claim=1)


class Asking:
    """A handler that asks for the item behind each item, and notes both keys."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []

    def __call__(self, lease: Lease, tools: Tools) -> Outcome:
        following = tools.following()
        assert tools.following() is following, "nothing further is claimed"
        self.seen.append((lease.item_key, following.item_key if following else None))
        return Done()

    @property
    def kinds(self) -> Kinds:
        return only(kind(self, slices=ONE_BY_ONE))


def test_the_item_that_is_asked_for_is_worked_next(pool: Engine) -> None:
    asking = Asking()
    job = running(pool, 3, kinds=asking.kinds)
    with Worker(pool, asking.kinds, job) as worker:
        assert worker.run_once().tally.total == 3
    assert asking.seen == [("k0000", "k0001"), ("k0001", "k0002"), ("k0002", None)]
    assert count(pool, job, ItemState.SUCCEEDED) == 3
    check_counters(pool, job)


def test_a_suspect_is_in_work_alone(pool: Engine) -> None:
    """Were it one of two, the next death could not tell which of them it was."""
    asking = Asking()
    job = running(pool, 4, kinds=asking.kinds)
    expire(pool, claimed(pool, job, 1, owner="dead"))
    rescue.run_once(pool, WORK, lambda: 0.0, job.job_id)
    assert rows(pool, job)["k0000"].death_count == 1
    drained(pool, job, asking.kinds)
    assert ("k0000", None) in asking.seen
    assert "k0000" not in {following for _, following in asking.seen}
    assert sorted(key for key, _ in asking.seen) == ["k0000", "k0001", "k0002", "k0003"]
    check_counters(pool, job)


@pytest.mark.parametrize("act", ["stop", "pause", "cancel"])
def test_nothing_is_claimed_ahead_of_an_end(pool: Engine, act: str) -> None:
    seen: list[Lease | None] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        if act == "stop":
            worker.stop()
        elif act == "cancel":
            jobs.cancel(pool, job.job_key)
        else:
            with transaction(pool) as connection:
                jobs.pause(connection, job.job_key)
        seen.append(tools.following())
        return Done()

    kinds = only(kind(work, slices=ONE_BY_ONE))
    job = running(pool, 3, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        worker.run_once()
    assert seen == [None]
    assert found(pool, job).succeeded_items == 1


def test_what_was_claimed_ahead_is_given_back_when_the_worker_stops(pool: Engine) -> None:
    def work(lease: Lease, tools: Tools) -> Outcome:
        assert tools.following() is not None
        worker.stop()
        return Done()

    kinds = only(kind(work, slices=ONE_BY_ONE))
    job = running(pool, 2, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert worker.run_once().left == 1
    left = rows(pool, job)["k0001"]
    assert (left.status, left.attempt_count, left.lease_until) == (ItemState.PENDING, 0, None)
    check_counters(pool, job)
