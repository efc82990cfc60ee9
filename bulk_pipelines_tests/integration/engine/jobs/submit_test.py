"""Submitting: one job for one request, however often and however many at once ask for it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import IdempotencyConflict, UnknownJob, WrongState
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.submission import Request, Submitted
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict
from bulk_pipelines_tests.scenes.engine_jobs import WORK, found, submitted

MANY = 16


def ask(pool: Engine, request: Request) -> Submitted:
    with transaction(pool) as connection:
        return submission.submit(connection, WORK, request)


def count(pool: Engine, owner: str) -> int:
    with transaction(pool) as connection:
        row = connection.execute("SELECT count(*) FROM job WHERE owner = %s", [owner]).fetchone()
    assert row is not None
    return int(row[0])


def request(owner: str, key: str | None = "once", **params: object) -> Request:
    return Request("work", owner, params, idempotency_key=key)


def test_a_job_as_it_was_asked_for(pool: Engine) -> None:
    trace = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    asked = Request(
        "work", "asked", {"deep": {"list": [1, None]}}, "cli", idempotency_key="k", request_id="r-1", trace_parent=trace
    )
    answer = ask(pool, asked)
    assert answer.created
    job = answer.job
    assert (job.kind, job.owner, job.params, job.origin) == ("work", "asked", {"deep": {"list": [1, None]}}, "cli")
    assert (job.request_id, job.trace_parent, job.status) == ("r-1", trace, JobState.SUBMITTED)
    assert (job.total_items, job.planned_at, job.finished_at, job.finished) == (0, None, None, False)
    assert found(pool, job) == job


def test_keys_count_on(pool: Engine) -> None:
    """J, the day, a number that grows and keeps growing past its six digits."""
    one, other = (ask(pool, request("counting", None)).job for _ in range(2))
    assert one.job_key[0] == "J"
    assert one.job_key[:10] == other.job_key[:10]
    assert int(other.job_key[10:]) == int(one.job_key[10:]) + 1
    with transaction(pool) as connection:
        assert connection.execute("SELECT right(new_job_key(7), 7)").fetchone() == ("_000007",)
        assert connection.execute("SELECT right(new_job_key(12345678), 9)").fetchone() == ("_12345678",)


def test_the_same_key_and_request_is_the_same_job(pool: Engine) -> None:
    first = ask(pool, request("again", a=1, b=[2]))
    second = ask(pool, request("again", b=[2], a=1))
    assert first.created
    assert not second.created
    assert second.job == first.job


def test_it_stays_the_same_job_when_it_is_over(pool: Engine) -> None:
    job = ask(pool, request("over")).job
    jobs.cancel(pool, job.job_key)
    again = ask(pool, request("over"))
    assert not again.created
    assert again.job.status is JobState.CANCELLED


@pytest.mark.parametrize(
    "other",
    [
        Request("work", "conflict", {"a": 2}, idempotency_key="once"),
        Request("work", "conflict", {"a": 1, "b": None}, idempotency_key="once"),
        Request("work", "conflict", {"a": 1}, idempotency_key="once", digest=b"other inputs"),
    ],
)
def test_the_same_key_and_another_request_names_the_job(pool: Engine, other: Request) -> None:
    first = ask(pool, request("conflict", a=1))
    with pytest.raises(IdempotencyConflict) as caught:
        ask(pool, other)
    assert caught.value.job_key == first.job.job_key
    assert first.job.job_key in str(caught.value)
    assert "'once'" in str(caught.value)
    assert isinstance(caught.value, Conflict)
    assert count(pool, "conflict") == 1


def test_a_key_belongs_to_its_owner(pool: Engine) -> None:
    assert ask(pool, request("one owner", a=1)).created
    assert ask(pool, request("another owner", a=2)).created


def test_without_a_key_each_request_is_a_job(pool: Engine) -> None:
    assert ask(pool, request("keyless", None)).created
    assert ask(pool, request("keyless", None)).created
    assert count(pool, "keyless") == 2


def test_many_ask_at_once_and_get_one_job(pool: Engine) -> None:
    ready = threading.Barrier(MANY)

    def go(_: int) -> Submitted:
        ready.wait()
        return ask(pool, request("many", a=1))

    with ThreadPoolExecutor(MANY) as executor:
        answers = list(executor.map(go, range(MANY)))
    assert len({answer.job.job_key for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert count(pool, "many") == 1


def test_many_ask_for_different_things_at_once_and_one_wins(pool: Engine) -> None:
    ready = threading.Barrier(MANY)

    def go(number: int) -> str:
        ready.wait()
        try:
            return ask(pool, request("rivals", a=number)).job.job_key
        except IdempotencyConflict as conflict:
            return conflict.job_key

    with ThreadPoolExecutor(MANY) as executor:
        assert len(set(executor.map(go, range(MANY)))) == 1
    assert count(pool, "rivals") == 1


def test_a_second_submit_waits_for_the_first_and_takes_over_when_it_is_undone(pool: Engine) -> None:
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(ZeroDivisionError), transaction(pool) as connection:
            first = submission.submit(connection, WORK, request("undone", a=1))
            second = executor.submit(ask, pool, request("undone", a=2))
            raise ZeroDivisionError
        answer = second.result(timeout=30)
    assert answer.created
    assert answer.job.job_key != first.job.job_key
    assert answer.job.params == {"a": 2}
    assert count(pool, "undone") == 1


def test_a_second_submit_waits_for_the_first_and_gets_its_job(pool: Engine) -> None:
    with ThreadPoolExecutor(1) as executor:
        with transaction(pool) as connection:
            first = submission.submit(connection, WORK, request("waited for", a=1))
            second = executor.submit(ask, pool, request("waited for", a=1))
        assert second.result(timeout=30).job.job_key == first.job.job_key
    assert not second.result().created


def test_the_digest_of_inputs_knows_their_borders() -> None:
    assert submission.digest_of(["ab", "c"]) != submission.digest_of(["a", "bc"])
    assert submission.digest_of([]) != submission.digest_of([""])
    assert submission.digest_of(x for x in "abc") == submission.digest_of(["a", "b", "c"])


def test_an_unknown_job(pool: Engine) -> None:
    with transaction(pool) as connection, pytest.raises(UnknownJob, match="'J20260101_000000'"):
        jobs.find(connection, "J20260101_000000")


def test_the_life_of_a_job_by_hand(pool: Engine) -> None:
    job = submitted(pool, 1)
    with transaction(pool) as connection:
        assert jobs.pause(connection, job.job_key).status is JobState.PAUSED
        assert jobs.pause(connection, job.job_key).status is JobState.PAUSED
        resumed = jobs.resume(connection, job.job_key)
        assert resumed.status is JobState.RUNNING
        assert resumed.started_at is not None
        started = jobs.start(connection, job.job_key, "run-1")
        assert (started.attempts, started.dagster_run_id) == (1, "run-1")
        assert jobs.start(connection, job.job_key).dagster_run_id == "run-1"
        failed = jobs.fail(connection, job.job_key, "no such file", {"file": "x"})
        assert (failed.status, failed.last_error, failed.result) == (JobState.FAILED, "no such file", {"file": "x"})
        assert failed.finished_at is not None
        assert jobs.fail(connection, job.job_key, "again").last_error == "no such file"
        for refused in (jobs.pause, jobs.resume, jobs.start):
            with pytest.raises(WrongState, match=rf"job {job.job_key} is FAILED: it cannot (pause|resume|start)"):
                refused(connection, job.job_key)
    with pytest.raises(WrongState, match="it cannot cancel"):
        jobs.cancel(pool, job.job_key)


def test_the_reason_of_a_failure_may_be_any_text(pool: Engine) -> None:
    job = submitted(pool)
    with transaction(pool) as connection:
        failed = jobs.fail(connection, job.job_key, "line 3: a\0b \ud800 " + "x" * 100_000)
    assert failed.last_error is not None
    assert failed.last_error.startswith("line 3: a")
    assert len(failed.last_error) <= 2_000
