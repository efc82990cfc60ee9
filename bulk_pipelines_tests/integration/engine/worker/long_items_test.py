"""Items longer than a slice: they stop at a checkpoint, are gone on with, and get new tries when they got on."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.outcomes import Done, Outcome, Unfinished
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import Transient
from bulk_pipelines_tests.scenes.engine_jobs import (
    check_counters,
    found,
    kind,
    make_due,
    only,
    rows,
    running,
    submitted,
)
from bulk_pipelines_tests.scenes.passing_time import Clock


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


def test_the_checkpoint_of_one_item_does_not_stop_the_next(pool: Engine) -> None:
    """Out of time, an item without a checkpoint goes on: it would begin anew, and might never come to its end."""
    clock = Clock()
    answers: list[bool] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        if lease.item_key == "k0000":
            with transaction(tools.pool) as connection:
                tools.checkpoint(connection, lease, {"at": 1})
        else:
            clock.now += 60
            answers.append(tools.stopping())
        return Done()

    kinds = only(kind(work))
    job = running(pool, 2, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        drain(worker, seconds=30)
    assert answers == [False]


def test_an_item_that_got_on_has_its_tries_anew(pool: Engine) -> None:
    """The item's last attempt wrote a checkpoint and then failed: that is not the item's end."""

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
