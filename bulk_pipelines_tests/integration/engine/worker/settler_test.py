"""The settler: batches by size and time, blocking when full, drained at the end, outages waited out, leases renewed."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.outcomes import Done, Outcome
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines_tests.scenes.engine_jobs import WORK, check_counters, claimed, expire, kind, only, running, statuses
from bulk_pipelines_tests.scenes.settlers import NEVER, add, at_work, succeeded
from bulk_pipelines_tests.scenes.waiting import until


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
