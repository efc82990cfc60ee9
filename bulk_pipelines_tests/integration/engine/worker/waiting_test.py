"""The loop around slices: what a worker waits for, and how it waits."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import leases
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.outcomes import Done, Outcome, RetryLater
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.drain import Drained, End
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.stopping import Stop
from bulk_pipelines.engine.worker.tools import Tools
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
    settled,
    submitted,
)
from bulk_pipelines_tests.scenes.waiting import until


def test_only_waiting_items_are_left(pool: Engine) -> None:
    kinds = only(kind(lambda lease, tools: RetryLater("busy", after=50 + lease.input["n"])))
    job = running(pool, 3, kinds=kinds)
    left = drained(pool, job, kinds, patient=False)
    assert (left.end, left.worked) == (End.WAITING, 3)
    assert left.seconds_to_next is not None
    assert 45 < left.seconds_to_next <= 50
    assert found(pool, job).status is JobState.RUNNING


def test_a_patient_worker_waits_for_retries(pool: Engine) -> None:
    def work(lease: Lease, tools: Tools) -> Outcome:
        return Done() if lease.attempt_count == 3 else RetryLater("busy", after=0.05)

    kinds = only(kind(work))
    job = running(pool, 3, kinds=kinds)
    assert drained(pool, job, kinds) == Drained(End.FINISHED, 9)
    assert {row.attempt_count for row in rows(pool, job).values()} == {3}


def test_an_impatient_worker_waits_for_those_that_others_hold(pool: Engine) -> None:
    job = running(pool, 2)
    (held,) = claimed(pool, job, 1, owner="another")
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(drained, pool, job, patient=False)
        until(lambda: found(pool, job).succeeded_items == 1, "the other item is done")
        settled(pool, job, [held], Done({"by": "another"}))
        assert future.result(timeout=30).end is End.FINISHED
    check_counters(pool, job)


def test_it_looks_often_at_first_and_then_seldom_whether_others_are_done(pool: Engine) -> None:
    waits: list[float] = []

    class Listening(Stop):
        def wait(self, seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 40:
                settled(pool, job, [held], Done({"by": "another"}))

    job = running(pool, 1)
    (held,) = claimed(pool, job, 1, owner="another")
    with Worker(pool, WORK, job) as worker:
        worker.standing.asked = Listening()
        assert drain.drain(worker).end is End.FINISHED
    assert (waits[0], waits[-3:]) == (0.01, [0.5, 0.5, 0.5])
    waited = 0.0
    for pause in waits[:-4]:
        assert pause <= 0.01 + waited / 8 + 1e-9
        waited += pause


def test_a_job_that_is_not_planned_to_its_end_is_waited_for(pool: Engine) -> None:
    job = submitted(pool, 3)
    with transaction(pool) as connection:
        jobs.start(connection, job.job_key)
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(drained, pool, job)
        until(lambda: found(pool, job).succeeded_items == 3, "all there is is done")
        assert found(pool, job).status is JobState.RUNNING
        assert not future.done()
        with transaction(pool) as connection:
            jobs.seal(connection, job.job_id)
        assert future.result(timeout=30).end is End.FINISHED
    assert found(pool, job).status is JobState.COMPLETED


def test_when_something_can_next_be_done(pool: Engine) -> None:
    job = running(pool, 4)

    def wait() -> float | None:
        with transaction(pool) as connection:
            return leases.seconds_to_next(connection, job.job_id)

    assert wait() is None
    one, other, third, fourth = claimed(pool, job, seconds=500)
    assert wait() == pytest.approx(500, abs=30)
    settled(pool, job, [one], RetryLater("x", after=300))
    assert wait() == pytest.approx(300, abs=30)
    settled(pool, job, [other], RetryLater("x", after=100))
    assert wait() == pytest.approx(100, abs=30)
    # One that is suspected waits in a place of its own.
    expire(pool, [third])
    assert (wait() or 0) < 0
    with Worker(pool, WORK, job, random=lambda: 0.5) as worker:
        drain.look_around(worker, patient=True, pause=0.01)
    assert wait() == pytest.approx(0.5, abs=3)
    settled(pool, job, [fourth], Done())
    assert wait() is not None
