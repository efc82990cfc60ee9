"""Redrive: buried and unfound items are tried again from the start, and their job goes on."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import UnknownJob, WrongState
from bulk_pipelines.engine.jobs import dlq, end, jobs, redrive
from bulk_pipelines.engine.jobs.dlq import Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, Skip
from bulk_pipelines.engine.states import ItemState, JobEvent, JobState
from bulk_pipelines_tests.scenes.engine_jobs import (
    WORK,
    check_counters,
    claimed,
    found,
    make_due,
    rows,
    running,
    settled,
    statuses,
    waiting_for_locks,
)
from bulk_pipelines_tests.scenes.listening import listening
from bulk_pipelines_tests.scenes.waiting import until


def over(pool: Engine, size: int = 8) -> Job:
    """A job that ended: of every four items one is done, one skipped, one buried, one was not found."""
    job = running(pool, size)
    given = sorted(claimed(pool, job), key=lambda lease: lease.item_key)
    outcomes: list[Outcome] = [Done({"x": 1}), Skip("x"), Bury("bad"), NotFound("gone")]
    for number, outcome in enumerate(outcomes):
        settled(pool, job, given[number::4], outcome)
    make_due(pool, job)
    settled(pool, job, claimed(pool, job), NotFound("gone"))
    assert end.attempt(pool, WORK, job.job_key).status is JobState.COMPLETED_WITH_ERRORS
    return found(pool, job)


def test_the_whole_job(pool: Engine) -> None:
    job = over(pool)
    assert redrive.redrive(pool, job.job_key) == 4
    again = found(pool, job)
    assert (again.status, again.finished_at, again.pending_items) == (JobState.RUNNING, None, 4)
    assert (again.dlq_items, again.not_found_items) == (0, 0)
    for row in rows(pool, job).values():
        if row.status == ItemState.PENDING:
            assert (row.attempt_count, row.not_found_count, row.death_count, row.due_at) == (0, 0, 0, None)
            assert row.error_message in ("bad", "gone"), "why it was buried is still to be seen"
    settled(pool, job, claimed(pool, job), Done({"x": 2}))
    assert end.attempt(pool, WORK, job.job_key).status is JobState.COMPLETED
    check_counters(pool, job)


@pytest.mark.parametrize(
    ("status", "left"), [(ItemState.DLQ, ItemState.NOT_FOUND), (ItemState.NOT_FOUND, ItemState.DLQ)]
)
def test_those_of_a_status(pool: Engine, status: ItemState, left: ItemState) -> None:
    job = over(pool)
    assert redrive.redrive(pool, job.job_key, [status]) == 2
    counted = list(statuses(pool, job).values())
    assert (counted.count(status), counted.count(left), counted.count(ItemState.PENDING)) == (0, 2, 2)
    check_counters(pool, job)


def test_chosen_items(pool: Engine) -> None:
    """Items that cannot be redriven, or are another job's, are left alone if they are among the chosen ones."""
    job, other = over(pool), over(pool)
    kept = rows(pool, job)
    wanted = [kept["k0002"].item_id, kept["k0000"].item_id, rows(pool, other)["k0002"].item_id, 10**15]
    assert redrive.redrive(pool, job.job_key, item_ids=wanted) == 1
    changed = {key for key, state in statuses(pool, job).items() if state != kept[key].status}
    assert changed == {"k0002"}
    assert found(pool, other) == other
    check_counters(pool, job)


def test_nothing_to_redrive_changes_nothing(pool: Engine) -> None:
    job = over(pool)
    assert redrive.redrive(pool, job.job_key, item_ids=[]) == 0
    assert redrive.redrive(pool, job.job_key, []) == 0
    assert found(pool, job) == job


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.PAUSED, JobState.FAILED])
def test_a_job_that_is(pool: Engine, state: JobState) -> None:
    """One that is over goes on; a paused one stays paused."""
    job = running(pool, 3)
    settled(pool, job, claimed(pool, job, 1), Bury("bad"))
    with transaction(pool) as connection:
        if state is JobState.PAUSED:
            jobs.pause(connection, job.job_key)
        elif state is JobState.FAILED:
            jobs.fail(connection, job.job_key, "x")
    assert redrive.redrive(pool, job.job_key) == 1
    after = found(pool, job)
    assert after.status is (JobState.PAUSED if state is JobState.PAUSED else JobState.RUNNING)
    assert (after.pending_items, after.finished_at) == (3, None)
    check_counters(pool, job)


def test_a_cancelled_job_is_refused(pool: Engine) -> None:
    job = running(pool, 3)
    settled(pool, job, claimed(pool, job, 1), Bury("bad"))
    jobs.cancel(pool, job.job_key)
    before = (found(pool, job), rows(pool, job))
    with pytest.raises(WrongState, match=f"job {job.job_key} is CANCELLED: it cannot redrive"):
        redrive.redrive(pool, job.job_key)
    assert (found(pool, job), rows(pool, job)) == before


def test_a_cancel_that_comes_in_between_wins(pool: Engine) -> None:
    job = running(pool, 3)
    settled(pool, job, claimed(pool, job, 1), Bury("bad"))
    with ThreadPoolExecutor(1) as executor:
        with transaction(pool) as connection:
            jobs.move(connection, job.job_key, JobEvent.CANCEL)
            future = executor.submit(redrive.redrive, pool, job.job_key)
            until(lambda: waiting_for_locks(pool) == 1, "the redrive waits for the job's row")
        with pytest.raises(WrongState):
            future.result(timeout=30)
    assert list(statuses(pool, job).values()).count(ItemState.DLQ) == 1
    jobs.cancel(pool, job.job_key)
    check_counters(pool, job)


def test_an_unknown_job_is_refused(pool: Engine) -> None:
    with pytest.raises(UnknownJob):
        redrive.redrive(pool, "J20200101_000001")


def test_in_batches(pool: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive, "BATCH", 3)
    job = over(pool, 40)
    assert redrive.redrive(pool, job.job_key) == 20
    assert found(pool, job).pending_items == 20
    check_counters(pool, job)


def test_several_at_once_redrive_each_item_once(pool: Engine) -> None:
    job = over(pool, 400)
    with ThreadPoolExecutor(4) as executor:
        assert sum(executor.map(lambda _: redrive.redrive(pool, job.job_key), range(4))) == 200
    check_counters(pool, job)


@pytest.fixture
def hopeless(pool: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """A job whose items are buried again as soon as they are redriven."""
    monkeypatch.setattr(redrive, "BATCH", 5)
    job = running(pool, 20)
    settled(pool, job, claimed(pool, job), Bury("bad"))
    over_now = threading.Event()

    def bury_again() -> None:
        while not over_now.is_set():
            settled(pool, job, claimed(pool, job), Bury("bad"))

    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(bury_again)
        yield job
        over_now.set()
        future.result(timeout=30)


FIRST = {
    queries.text("jobs", "lock_job"),
    queries.text("dlq", "last_burial"),
    queries.text("dlq", "dead_letters"),
}
"""The statements with which the transactions of a redrive begin."""


def test_what_is_buried_again_meanwhile_is_not_redriven_again(pool: Engine, hopeless: Job) -> None:
    """Else a redrive of items that fail at once would never end."""

    def wait(statement: str) -> None:
        if statement in FIRST:
            until(lambda: found(pool, hopeless).dlq_items == 20, "all are buried again")

    with listening(pool, wait) as heard, pytest.MonkeyPatch.context() as patch:
        assert redrive.redrive(heard, hopeless.job_key) == 20
        patch.setattr(dlq, "AT_A_TIME", 5)
        assert dlq.try_again(heard, Wanted(hopeless.job_key)).items == 20
