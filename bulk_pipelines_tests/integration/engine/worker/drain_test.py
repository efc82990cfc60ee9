"""The loop around slices: why a worker leaves, and what it leaves behind."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import leases
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs, redrive
from bulk_pipelines.engine.outcomes import Bury, Done, Outcome, RetryLater, Unfinished
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.drain import Drained, End
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.engine.worker.work import Slice
from bulk_pipelines_tests.scenes.engine_jobs import (
    WORK,
    check_counters,
    claimed,
    drained,
    expire,
    found,
    kind,
    only,
    rows,
    running,
    statuses,
    submitted,
)


def test_it_works_everything_and_ends_the_job(pool: Engine) -> None:
    job = running(pool, 50)
    seen: list[Slice] = []
    with Worker(pool, WORK, job) as worker:
        left = drain.drain(worker, on_slice=seen.append)
    assert left == Drained(End.FINISHED, 50)
    assert [(each.claimed, each.tally.done) for each in seen] == [(16, 16), (34, 34)]
    ended = found(pool, job)
    assert (ended.status, ended.succeeded_items) == (JobState.COMPLETED, 50)
    assert ended.finished_at is not None
    assert ended.heartbeat_at is not None
    check_counters(pool, job)


def test_several_workers_share_a_job(pool: Engine) -> None:
    worked: list[str] = []
    meet = threading.Barrier(3)

    def work(lease: Lease, tools: Tools) -> Outcome:
        if lease.input["n"] < 3:
            meet.wait(timeout=30)  # the first three are claimed by three workers
        worked.append(lease.item_key)
        return Done({"by": tools.worker})

    kinds = only(kind(work, slices=SliceLimits(first_claim=1, max_claim=7)))
    job = running(pool, 300, kinds=kinds)
    with ThreadPoolExecutor(3) as executor:
        ends = list(executor.map(lambda _: drained(pool, job, kinds), range(3)))
    assert {each.end for each in ends} == {End.FINISHED}
    assert sum(each.worked for each in ends) == 300
    assert sorted(worked) == sorted(statuses(pool, job))
    by = {str((row.result or {}).get("by")) for row in rows(pool, job).values()}
    assert len(by) == 3
    assert found(pool, job).status is JobState.COMPLETED
    check_counters(pool, job)


def test_out_of_time(pool: Engine) -> None:
    """A slice would take longer than there is: it is cut short, and the rest given back."""

    class Clock:
        now = 0.0

        def __call__(self) -> float:
            return self.now

    clock = Clock()

    def work(lease: Lease, tools: Tools) -> Outcome:
        clock.now += 1
        return Done()

    kinds = only(kind(work, slices=SliceLimits(target_seconds=60)))
    job = running(pool, 30, kinds=kinds)
    with Worker(pool, kinds, job, clock=clock) as worker:
        assert drain.drain(worker, seconds=5) == Drained(End.OUT_OF_TIME, 5)
    ended = found(pool, job)
    assert (ended.status, ended.succeeded_items, ended.pending_items) == (JobState.RUNNING, 5, 25)


@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_out_of_time_in_the_middle_of_an_item(pool: Engine, has_checkpoints: bool) -> None:
    """An item that can be gone on with is left where it is. Any other is finished: begun anew each time, it might never
    be."""
    now = [0.0]

    def work(lease: Lease, tools: Tools) -> Outcome:
        for part in range((lease.checkpoint or {"next": 0})["next"], 20):
            if tools.stopping():
                return Unfinished()
            now[0] += 1
            if has_checkpoints:
                with transaction(tools.pool) as connection:
                    tools.hold(connection, lease)
                    tools.checkpoint(connection, lease, {"next": part + 1})
        return Done()

    kinds = only(kind(work, slices=SliceLimits(max_claim=1, first_claim=1)))
    job = running(pool, 2, kinds=kinds)
    with Worker(pool, kinds, job, clock=lambda: now[0]) as worker:
        left = drain.drain(worker, seconds=5)
    assert left == Drained(End.OUT_OF_TIME, 0 if has_checkpoints else 1)
    first, second = rows(pool, job).values()
    if has_checkpoints:
        assert (first.status, first.checkpoint, first.attempt_count) == (ItemState.PENDING, {"next": 5}, 0)
    else:
        assert first.status == ItemState.SUCCEEDED
    assert second.status == ItemState.PENDING
    assert drained(pool, job, kinds).end is End.FINISHED


def test_it_rescues_what_others_lost(pool: Engine) -> None:
    job = running(pool, 5)
    lost = claimed(pool, job, 3, owner="dead")
    expire(pool, lost)
    assert drained(pool, job) == Drained(End.FINISHED, 5)
    assert [row.lease_term for row in rows(pool, job).values()] == [3, 3, 3, 1, 1]
    assert found(pool, job).status is JobState.COMPLETED


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.SUBMITTED])
def test_a_job_that_is_not_running_is_left(pool: Engine, state: JobState) -> None:
    job = submitted(pool, 3)
    if state is JobState.PAUSED:
        with transaction(pool) as connection:
            jobs.pause(connection, job.job_key)
    assert drained(pool, job) == Drained(End.PAUSED, 0)
    assert found(pool, job).status is state


def test_a_job_that_is_over_is_left(pool: Engine) -> None:
    job = running(pool, 3)
    jobs.cancel(pool, job.job_key)
    assert drained(pool, job) == Drained(End.FINISHED, 0)


def test_a_stop_is_a_reason_to_leave(pool: Engine) -> None:
    def work(lease: Lease, tools: Tools) -> Outcome:
        worker.stop()
        return Done()

    kinds = only(kind(work))
    job = running(pool, 5, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert drain.drain(worker) == Drained(End.STOPPED, 1)
    assert (found(pool, job).succeeded_items, found(pool, job).pending_items) == (1, 4)


def test_the_first_burial_fails_a_hasty_job(pool: Engine) -> None:
    def work(lease: Lease, tools: Tools) -> Outcome:
        return Bury("no such column") if lease.input["n"] == 2 else Done()

    kinds = only(kind(work, fail_fast=True, slices=SliceLimits(first_claim=1, max_claim=1)))
    job = running(pool, 10, kinds=kinds)
    assert drained(pool, job, kinds).end is End.FINISHED
    ended = found(pool, job)
    assert (ended.status, ended.last_error) == (JobState.FAILED, "k0002: no such column")
    assert (ended.succeeded_items, ended.dlq_items, ended.pending_items) == (2, 1, 7)
    # Redriven, it goes on with all of it.
    assert redrive.redrive(pool, job.job_key) == 1
    assert drained(pool, job).end is End.FINISHED
    assert (found(pool, job).status, found(pool, job).succeeded_items) == (JobState.COMPLETED, 10)


def test_what_spent_its_budget_ends_in_the_dlq_and_the_job_with_errors(pool: Engine) -> None:
    def work(lease: Lease, tools: Tools) -> Outcome:
        return RetryLater("away", after=0) if lease.input["n"] else Done()

    kinds = only(kind(work, retry=RetryPolicy(max_attempts=3)))
    job = running(pool, 4, kinds=kinds)
    assert drained(pool, job, kinds) == Drained(End.FINISHED, 10)
    ended = found(pool, job)
    assert (ended.status, ended.dlq_items) == (JobState.COMPLETED_WITH_ERRORS, 3)
    assert ended.last_error == "k0001: away (given up after 3 attempts)"
    check_counters(pool, job)


def test_what_a_cancel_met_in_a_claim_is_cancelled_by_the_worker_that_leaves(pool: Engine) -> None:
    """The claim had its items locked, so the cancel passed by them; then it saw the cancel and took back its claim."""
    job = running(pool, 6)
    with pytest.raises(leases.ClaimUndone), transaction(pool) as connection:
        connection.execute("SELECT FROM job_item WHERE job_id = %s ORDER BY item_id LIMIT 4 FOR UPDATE", [job.job_id])
        assert jobs.cancel(pool, job.job_key).cancelled_items == 2
        raise leases.ClaimUndone
    assert found(pool, job).pending_items == 4
    assert drained(pool, job).end is End.FINISHED
    assert set(statuses(pool, job).values()) == {ItemState.CANCELLED}
    check_counters(pool, job)
