"""Dead letters: found by what is asked, tried again, discarded; the job's counters always right."""

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import WrongState
from bulk_pipelines.engine.jobs import dispatch, dlq, end, jobs, redrive, submission
from bulk_pipelines.engine.jobs.dlq import Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.outcomes import Bury, Done
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.errors import InvalidInput, NotFound
from bulk_pipelines_tests.scenes.engine_jobs import check_counters, claimed, found, running, settled

KINDS = Kinds([Kind("a", lambda lease, tools: Done()), Kind("b", lambda lease, tools: Done())])


def failed_job(engine: Engine, kind: str, letters: list[tuple[str, str]]) -> Job:
    """A job that failed, with one dead letter for each (key, error class)."""
    with transaction(engine) as connection:
        job = submission.submit(connection, KINDS, submission.Request(kind, "me", {})).job
        jobs.start(connection, job.job_key, "a-run")
        for key, error_class in letters:
            connection.execute(
                "INSERT INTO job_item"
                " (job_id, item_key, owner, kind, status, error_class, error_message, attempt_count)"
                " VALUES (%s, %s, 'me', %s, 'DLQ', %s, 'it broke', 3)",
                [job.job_id, key, kind, error_class],
            )
        connection.execute(
            "UPDATE job SET total_items = %(n)s, dlq_items = %(n)s WHERE job_id = %(job)s",
            {"n": len(letters), "job": job.job_id},
        )
        return jobs.fail(connection, job.job_key, "it broke")


def keys(engine: Engine, wanted: Wanted) -> list[str]:
    with transaction(engine) as connection:
        return sorted(letter.item_key for letter in dlq.page(connection, wanted))


def test_found_by_job_kind_class_and_age(engine: Engine) -> None:
    first = failed_job(engine, "a", [("a1", "transient"), ("a2", "permanent")])
    failed_job(engine, "b", [("b1", "permanent")])
    with transaction(engine) as connection:
        connection.execute("UPDATE job_item SET updated_at = now() - interval '2 hours' WHERE item_key = 'b1'")
    assert keys(engine, Wanted()) == ["a1", "a2", "b1"]
    assert keys(engine, Wanted(job_key=first.job_key)) == ["a1", "a2"]
    assert keys(engine, Wanted(kind="b")) == ["b1"]
    assert keys(engine, Wanted(error_class="permanent")) == ["a2", "b1"]
    assert keys(engine, Wanted(older_than=3_600)) == ["b1"]


def test_one_is_shown_with_all_that_is_known(engine: Engine) -> None:
    job = failed_job(engine, "a", [("a1", "transient")])
    with transaction(engine) as connection:
        (letter,) = dlq.page(connection, Wanted())
        shown = dlq.show(connection, letter.item_id)
        with pytest.raises(NotFound, match="no dead letter"):
            dlq.show(connection, letter.item_id + 1)
    assert (shown["job_key"], shown["attempt_count"], shown["dagster_run_id"]) == (job.job_key, 3, "a-run")
    assert (shown["error_class"], shown["error_message"]) == ("transient", "it broke")


def test_tried_again_their_jobs_go_on_and_want_a_run(engine: Engine) -> None:
    first = failed_job(engine, "a", [("a1", "transient"), ("a2", "permanent")])
    second = failed_job(engine, "b", [("b1", "transient")])
    assert dlq.try_again(engine, Wanted(error_class="transient")).items == 2
    with transaction(engine) as connection:
        a, b = jobs.find(connection, first.job_key), jobs.find(connection, second.job_key)
        wanted = connection.execute("SELECT bool_and(run_wanted) FROM job").fetchone()
    assert (a.status, a.pending_items, a.dlq_items) == (JobState.RUNNING, 1, 1)
    assert (b.status, b.pending_items, b.dlq_items) == (JobState.RUNNING, 1, 0)
    assert wanted == (True,)


def test_discarded_for_good(engine: Engine) -> None:
    job = failed_job(engine, "a", [("a1", "transient"), ("a2", "permanent")])
    with pytest.raises(InvalidInput, match="not everything at once"):
        dlq.discard(engine, Wanted())
    assert dlq.discard(engine, Wanted(error_class="permanent")) == 1
    with transaction(engine) as connection:
        left = jobs.find(connection, job.job_key)
    assert (left.dlq_items, left.cancelled_items, left.status) == (1, 1, JobState.FAILED)
    assert keys(engine, Wanted()) == ["a1"]


def test_more_than_fit_one_look(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dlq, "AT_A_TIME", 3)
    failed_job(engine, "a", [(f"a{n}", "transient") for n in range(8)])
    assert dlq.try_again(engine, Wanted(kind="a")).items == 8
    assert keys(engine, Wanted()) == []


def test_a_cancelled_job_and_a_removed_one_keep_no_other_from_being_tried_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every one of them is looked at apart, and the cancelled one has more than fit one look."""
    monkeypatch.setattr(dlq, "AT_A_TIME", 2)
    first = failed_job(engine, "a", [("a1", "transient")])
    cancelled = failed_job(engine, "a", [(f"c{n}", "transient") for n in range(5)])
    last = failed_job(engine, "b", [("b1", "transient")])
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET status = 'CANCELLED' WHERE job_key = %s", [cancelled.job_key])
    done = dlq.try_again(engine, Wanted())
    assert (done.items, done.left, done.goes_on) == (2, {cancelled.job_key: 5}, False)
    with transaction(engine) as connection:
        states = [jobs.find(connection, job.job_key).status for job in (first, cancelled, last)]
    assert states == [JobState.RUNNING, JobState.CANCELLED, JobState.RUNNING]
    with pytest.raises(WrongState, match="is CANCELLED: it cannot redrive"):
        dlq.try_again(engine, Wanted(job_key=cancelled.job_key))
    assert dlq.discard(engine, Wanted(job_key=cancelled.job_key)) == 5


FAST = Kinds([Kind("work", lambda lease, tools: Done(), fail_fast=True)])


@pytest.mark.parametrize("way", ["dead letters", "redrive"])
def test_a_job_that_failed_fast_goes_on_when_what_failed_it_is_discarded(engine: Engine, way: str) -> None:
    job = running(engine, 3, kinds=FAST)
    settled(engine, job, claimed(engine, job, 1), Bury("never"))
    assert found(engine, job).status is JobState.FAILED
    assert dlq.discard(engine, Wanted(job_key=job.job_key)) == 1
    if way == "redrive":
        assert redrive.redrive(engine, job.job_key) == 0
    else:
        assert dlq.try_again(engine, Wanted(job_key=job.job_key)).goes_on
    assert found(engine, job).status is JobState.RUNNING
    with transaction(engine) as connection:
        (offer,) = dispatch.offers(connection, ["work"], dispatch.DispatchLimits())
    assert offer.job_key == job.job_key
    settled(engine, job, claimed(engine, job), Done())
    assert end.attempt(engine, FAST, job.job_key).status is JobState.COMPLETED
    check_counters(engine, job)
    assert not dlq.try_again(engine, Wanted(job_key=job.job_key)).goes_on


def test_a_job_that_has_other_dead_letters_stays_as_it_ended(engine: Engine) -> None:
    job = running(engine, 3, kinds=FAST)
    given = claimed(engine, job, 2)
    settled(engine, job, given, Bury("never"))
    with transaction(engine) as connection:
        letter = dlq.page(connection, Wanted(), 1)[0]
        connection.execute("UPDATE job_item SET error_class = 'died' WHERE item_id = %s", [letter.item_id])
    assert dlq.discard(engine, Wanted(error_class="died")) == 1
    assert redrive.redrive(engine, job.job_key, [ItemState.NOT_FOUND]) == 0
    assert found(engine, job).status is JobState.FAILED
    assert redrive.redrive(engine, job.job_key) == 1
    assert found(engine, job).pending_items == 2


def test_what_was_not_found_is_tried_again_when_that_is_asked_for(engine: Engine) -> None:
    job = failed_job(engine, "a", [("a1", "permanent")])
    with transaction(engine) as connection:
        connection.execute(
            "INSERT INTO job_item (job_id, item_key, owner, kind, status) VALUES (%s, 'a2', 'me', 'a', 'NOT_FOUND')",
            [job.job_id],
        )
        connection.execute("UPDATE job SET total_items = 2, not_found_items = 1")
    wanted = Wanted(job_key=job.job_key)
    assert dlq.try_again(engine, wanted).items == 1
    assert found(engine, job).not_found_items == 1
    assert dlq.try_again(engine, wanted, not_found=True).items == 1
    assert (found(engine, job).not_found_items, found(engine, job).pending_items) == (0, 2)
    check_counters(engine, job)


@pytest.mark.parametrize("narrowed", [Wanted(), Wanted(kind="a"), Wanted(job_key="J20260101_000001", kind="a")])
def test_what_was_not_found_is_asked_for_by_one_job_alone(engine: Engine, narrowed: Wanted) -> None:
    with pytest.raises(InvalidInput, match="name one job, and nothing else"):
        dlq.try_again(engine, narrowed, not_found=True)
