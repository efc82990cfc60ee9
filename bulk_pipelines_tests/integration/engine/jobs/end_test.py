"""The end of a job: by whoever comes first, once, with the same answer."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import end, jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Ending
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines.errors import Unavailable
from bulk_pipelines_tests.scenes.engine_jobs import (
    WORK,
    check_counters,
    claimed,
    done,
    found,
    kind,
    only,
    running,
    settled,
    submitted,
)

HASTY = only(kind(done, fail_fast=True))


def ended(pool: Engine, outcomes: Sequence[Outcome]) -> Job:
    """A job with an item for each outcome, all of them settled, and nobody there to end it."""
    job = running(pool, len(outcomes))
    for lease, outcome in zip(claimed(pool, job), outcomes, strict=True):
        settled(pool, job, [lease], outcome)
    return job


NOT_THERE = NotFound("gone")


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ([], JobState.COMPLETED),
        ([Done()], JobState.COMPLETED),
        ([Done(), Skip("x")], JobState.COMPLETED),
        ([Skip("x"), Skip("x")], JobState.COMPLETED),
        ([Done(), Bury("x")], JobState.COMPLETED_WITH_ERRORS),
        ([Skip("x"), Bury("x")], JobState.COMPLETED_WITH_ERRORS),
        ([Bury("x")], JobState.FAILED),
        ([Bury("x"), Bury("y")], JobState.FAILED),
    ],
)
def test_what_the_counters_say(pool: Engine, outcomes: list[Outcome], state: JobState) -> None:
    job = ended(pool, outcomes)
    end.attempt(pool, WORK, job.job_key)
    assert found(pool, job).status is state
    assert end.attempt(pool, WORK, job.job_key) == found(pool, job), "a second time it changes nothing"


def test_what_was_not_found_is_no_error(pool: Engine) -> None:
    job = running(pool, 1)
    for _ in range(2):
        with transaction(pool) as connection:
            connection.execute(
                "UPDATE job_item SET due_at = now() WHERE due_at IS NOT NULL AND job_id = %s", [job.job_id]
            )
        settled(pool, job, claimed(pool, job), NOT_THERE)
    assert found(pool, job).not_found_items == 1
    assert end.attempt(pool, WORK, job.job_key).status is JobState.COMPLETED


@pytest.mark.parametrize("outcome", [RetryLater("x"), None], ids=["one waits", "one is worked"])
def test_not_yet(pool: Engine, outcome: Outcome | None) -> None:
    job = running(pool, 2)
    one, other = claimed(pool, job)
    settled(pool, job, [one], Done())
    if outcome is not None:
        settled(pool, job, [other], outcome)
    assert end.attempt(pool, WORK, job.job_key).status is JobState.RUNNING
    assert end.run_once(pool, WORK) == []


def test_not_before_all_items_are_known(pool: Engine) -> None:
    job = submitted(pool, 0)
    with transaction(pool) as connection:
        jobs.start(connection, job.job_key)
    assert end.attempt(pool, WORK, job.job_key).status is JobState.RUNNING
    with transaction(pool) as connection:
        jobs.seal(connection, job.job_id)
    assert end.attempt(pool, WORK, job.job_key).status is JobState.COMPLETED


def test_a_paused_job_ends_after_it_is_resumed(pool: Engine) -> None:
    job = running(pool, 1)
    (lease,) = claimed(pool, job)
    with transaction(pool) as connection:
        jobs.pause(connection, job.job_key)
    settled(pool, job, [lease], Done())
    assert end.attempt(pool, WORK, job.job_key).status is JobState.PAUSED
    with transaction(pool) as connection:
        jobs.resume(connection, job.job_key)
    assert [each.job_key for each in end.run_once(pool, WORK)] == [job.job_key]
    assert found(pool, job).status is JobState.COMPLETED


def test_the_finalizer_ends_what_a_dead_worker_left(pool: Engine) -> None:
    """The worker died between its last settlement and the end of the job."""
    given = [ended(pool, [Done()]), ended(pool, [Done(), Bury("x")]), ended(pool, [])]
    assert [each.status for each in end.run_once(pool, WORK)] == [
        JobState.COMPLETED,
        JobState.COMPLETED_WITH_ERRORS,
        JobState.COMPLETED,
    ]
    assert end.run_once(pool, WORK) == []
    for job in given:
        check_counters(pool, job)


def test_the_finalizer_ends_a_cancel_that_was_cut_short(pool: Engine) -> None:
    job = running(pool, 5)
    with transaction(pool) as connection:
        jobs.move(connection, job.job_key, JobEvent.CANCEL)
    assert found(pool, job).pending_items == 5
    end.run_once(pool, WORK)
    assert found(pool, job).cancelled_items == 5
    check_counters(pool, job)


def test_one_job_that_cannot_end_does_not_hold_up_the_others(pool: Engine, caplog: pytest.LogCaptureFixture) -> None:
    unknown = ended(pool, [Done()])
    with transaction(pool) as connection:
        connection.execute("UPDATE job SET kind = 'of a later version' WHERE job_id = %s", [unknown.job_id])
    bad = ended(pool, [Done()])
    good = ended(pool, [Done()])
    kinds = only(kind(done, finish=lambda connection, job: raise_for(bad, job)))
    with caplog.at_level(logging.ERROR):
        assert [each.job_key for each in end.run_once(pool, kinds)] == [good.job_key]
    assert bad.job_key in caplog.text
    assert unknown.job_key in caplog.text
    assert found(pool, bad).status is JobState.RUNNING
    end.run_once(pool, WORK)
    assert found(pool, bad).status is JobState.COMPLETED
    jobs.cancel(pool, unknown.job_key)


def test_one_job_whose_storage_is_away_does_not_hold_up_the_others(
    pool: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = ended(pool, [Done()]), ended(pool, [Done()])

    def settle(_: Engine, job: Job) -> bool:
        if job.job_id == bad.job_id:
            raise Unavailable("the storage does not answer")
        return True

    assert [each.job_key for each in end.run_once(pool, only(kind(done, reconcile=settle)))] == [good.job_key]
    assert f"{bad.job_key} cannot be ended now: the storage does not answer" in caplog.text


def test_what_is_overtaken_while_it_settles_is_not_ended_by_it(pool: Engine) -> None:
    """The job was paused and taken up again in the meantime: what the first attempt has put right is not all there
    is."""
    job = ended(pool, [Done()])
    answers = iter([False, True])
    kinds = only(kind(done, reconcile=lambda _, __: next(answers)))
    assert end.attempt(pool, kinds, job.job_key).status is JobState.RUNNING
    assert end.attempt(pool, kinds, job.job_key).status is JobState.COMPLETED


def raise_for(bad: Job, job: Job) -> Ending:
    if job.job_id == bad.job_id:
        raise ZeroDivisionError(job.job_key)
    return end.verdict(job)


def test_a_kind_may_decide_and_say_more(pool: Engine) -> None:
    def decide(connection: psycopg.Connection[Any], job: Job) -> Ending:
        connection.execute("CREATE TABLE IF NOT EXISTS said (job_key text)")
        connection.execute("INSERT INTO said VALUES (%s)", [job.job_key])
        return Ending(JobEvent.FAIL, {"succeeded": job.succeeded_items}, "too few")

    kinds = only(kind(done, finish=decide))
    job = ended(pool, [Done(), Done()])
    job = end.attempt(pool, kinds, job.job_key)
    assert (job.status, job.result, job.last_error) == (JobState.FAILED, {"succeeded": 2}, "too few")
    with transaction(pool) as connection:
        assert connection.execute("SELECT job_key FROM said").fetchall() == [(job.job_key,)]


@pytest.mark.parametrize(
    "result", [{"x": "y" * 2_000_000}, {"x": float("nan")}, {1: 2}, {"x": object()}, ["no object"]]
)
def test_a_result_that_cannot_be_kept_keeps_no_job_running(pool: Engine, result: Any) -> None:
    kinds = only(kind(done, finish=lambda connection, job: Ending(JobEvent.COMPLETE, result)))
    job = end.attempt(pool, kinds, ended(pool, [Done()]).job_key)
    assert job.status is JobState.COMPLETED
    assert job.result is not None
    assert job.result["left_out"].startswith("result: ")


def test_it_is_decided_once_however_many_try(pool: Engine) -> None:
    calls: list[str] = []

    def decide(connection: psycopg.Connection[Any], job: Job) -> Ending:
        calls.append(job.job_key)
        return end.verdict(job)

    kinds = only(kind(done, finish=decide))
    job = ended(pool, [Done()])
    with ThreadPoolExecutor(8) as executor:
        found_states = {each.status for each in executor.map(lambda _: end.attempt(pool, kinds, job.job_key), range(8))}
    assert found_states == {JobState.COMPLETED}
    assert calls == [job.job_key]


def test_a_hasty_job_with_a_burial_fails(pool: Engine) -> None:
    job = running(pool, 2, kinds=HASTY)
    one, other = claimed(pool, job)
    settled(pool, job, [other], Done())
    with transaction(pool) as connection:
        connection.execute("UPDATE job SET fail_fast = false WHERE job_id = %s", [job.job_id])
    settled(pool, job, [one], Bury("x"))
    with transaction(pool) as connection:
        connection.execute("UPDATE job SET fail_fast = true WHERE job_id = %s", [job.job_id])
    assert end.attempt(pool, HASTY, job.job_key).status is JobState.FAILED
    assert found(pool, job).last_error == "the DLQ has 1 of 2 items"


@pytest.mark.parametrize(
    ("error", "tries"), [(ValueError("a bug"), end.TRIES), (psycopg.errors.UndefinedColumn("no column x"), 1)]
)
def test_a_job_that_cannot_be_ended_fails_with_the_reason(pool: Engine, error: Exception, tries: int) -> None:
    seen: list[str] = []

    def settle(_: Engine, job: Job) -> bool:
        seen.append(job.job_key)
        raise error

    job = ended(pool, [Done()])
    assert end.attempt(pool, only(kind(done, reconcile=settle)), job.job_key).status is JobState.FAILED
    assert found(pool, job).last_error == f"it could not be ended: {error}"
    assert len(seen) == tries


def test_a_job_whose_end_may_pass_is_ended_later(pool: Engine) -> None:
    def settle(_: Engine, __: Job) -> bool:
        raise Unavailable("the storage is away")

    job = ended(pool, [Done()])
    with pytest.raises(Unavailable):
        end.attempt(pool, only(kind(done, reconcile=settle)), job.job_key)
    assert found(pool, job).status is JobState.RUNNING
