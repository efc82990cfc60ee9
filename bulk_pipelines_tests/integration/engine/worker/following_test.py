"""Handlers that ask for the item behind theirs, to begin with it early."""

from contextlib import suppress

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import leases, rescue
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.outcomes import Done, Outcome, Unfinished
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.engine.worker.drain import End, drain
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
    settled,
)
from bulk_pipelines_tests.scenes.passing_time import Clock

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


def test_a_suspect_is_left_as_it_was_while_another_is_in_work(pool: Engine) -> None:
    """Were it leased for a moment only, a death in this moment would cost it a mark that the other one deserves."""
    seen: list[str] = []
    left: list[tuple[ItemState, int, int]] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        seen.append(lease.item_key)
        if lease.item_key == "k0001":
            expire(pool, claimed(pool, job, 1, owner="dead"))
            rescue.run_once(pool, WORK, lambda: 0.0, job.job_id)
            tools.following()
            suspect = rows(pool, job)["k0002"]
            left.append((suspect.status, suspect.lease_term, suspect.death_count))
        return Done()

    kinds = only(kind(work, slices=ONE_BY_ONE))
    job = running(pool, 4, kinds=kinds)
    drained(pool, job, kinds)
    assert left == [(ItemState.RETRY_WAIT, 2, 1)]
    assert seen == ["k0000", "k0001", "k0002", "k0003"], "the suspect comes next"
    check_counters(pool, job)


@pytest.mark.parametrize("trouble", ["outage", "refusal"])
def test_an_item_does_not_fail_because_the_next_one_cannot_be_claimed(
    own_server: Server, own_pool: Engine, trouble: str
) -> None:
    def rename(table: str, to: str) -> None:
        with transaction(own_pool) as connection:
            connection.execute(f"ALTER TABLE {table} RENAME TO {to}".encode())

    def work(lease: Lease, tools: Tools) -> Outcome:
        if lease.item_key == "k0000":
            own_server.stop_immediately() if trouble == "outage" else rename("claim", "claim_away")
            try:
                tools.following()
            finally:
                own_server.start() if trouble == "outage" else rename("claim_away", "claim")
        return Done()

    kinds = only(kind(work, slices=ONE_BY_ONE))
    job = running(own_pool, 2, kinds=kinds)
    drained(own_pool, job, kinds)
    ended = rows(own_pool, job)
    assert {(each.status, each.attempt_count, each.error_message) for each in ended.values()} == {
        (ItemState.SUCCEEDED, 1, None)
    }


def test_nothing_is_claimed_ahead_when_the_time_is_over(pool: Engine) -> None:
    clock = Clock()
    seen: list[Lease | None] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        clock.now += 10
        seen.append(tools.following())
        return Done()

    kinds = only(kind(work, slices=ONE_BY_ONE))
    job = running(pool, 3, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        assert drain(worker, seconds=5).end is End.OUT_OF_TIME
    assert seen == [None]


class Reader:
    """Something that a handler has begun, and that somebody must end."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("way", ["stop", "pause", "interrupt"])
def test_what_was_begun_of_an_item_that_is_given_back_is_ended(pool: Engine, way: str) -> None:
    begun: list[Reader] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        assert tools.following() is not None
        tools.begun = Reader()
        begun.append(tools.begun)
        match way:
            case "stop":
                worker.stop()
            case "pause":
                with transaction(pool) as connection:
                    jobs.pause(connection, job.job_key)
                worker.settler.job_status = JobState.PAUSED  # what the next settlement would see
            case _:
                raise KeyboardInterrupt
        return Done()

    kinds = only(kind(work, slices=ONE_BY_ONE))
    job = running(pool, 2, kinds=kinds)
    with suppress(KeyboardInterrupt), Worker(pool, kinds, job) as worker:
        worker.run_once()
        if way == "pause":
            worker.run_once()
            assert begun[0].closed == 1, "a worker that goes on has ended it, too"
    (reader,) = begun
    assert reader.closed == 1
    assert rows(pool, job)["k0001"].lease_until is None
    check_counters(pool, job)


@pytest.mark.parametrize("way", ["its lease is lost", "its handler fails first"])
def test_what_was_begun_of_an_item_that_is_not_worked_is_ended(pool: Engine, way: str) -> None:
    """The worker may have nothing to do for hours then."""
    begun: list[Reader] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        if lease.item_key == "k0000":
            following = tools.following()
            assert following is not None
            tools.begun = Reader()
            begun.append(tools.begun)
            if way == "its lease is lost":
                worker.settler.forget(following)
        elif way == "its handler fails first":
            raise OSError(way)
        return Done()

    kinds = only(kind(work, slices=ONE_BY_ONE))
    job = running(pool, 2, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        worker.run_once()
        assert begun[0].closed == 1


def test_an_item_that_others_have_given_back_is_not_claimed_beside_itself(pool: Engine) -> None:
    """A worker that slept beyond its lease does not know yet that its item is not its own any more. When it finds that
    out, it forgets the item: a new lease of it would run out unseen."""
    terms: list[int] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        terms.append(lease.lease_term)
        if len(terms) == 1:
            expire(pool, [lease])
            rescue.run_once(pool, WORK, lambda: 0.0, job.job_id)
            again = claimed(pool, job, 1, owner="another")
            with transaction(pool) as connection:
                leases.checkpoint(connection, again[0], {"at": 1}, 60)
            settled(pool, job, again, Unfinished())
            assert tools.following() is None
            with transaction(pool) as connection:
                tools.hold(connection, lease)
        return Done()

    kinds = only(kind(work, slices=ONE_BY_ONE))
    job = running(pool, 1, kinds=kinds)
    drained(pool, job, kinds)
    ended = rows(pool, job)["k0000"]
    assert (ended.status, ended.death_count, terms) == (ItemState.SUCCEEDED, 0, [1, ended.lease_term])
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
