"""Settlements: what is written for an item, and what becomes of its job, in one statement."""

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake.payload import MAX_BYTES
from bulk_pipelines.engine.items import leases, rescue, settling
from bulk_pipelines.engine.items.settling import MOST_JSON, Settled
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.submission import Request
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip, Unfinished
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines_tests.scenes.engine_jobs import (
    FAR,
    WORK,
    check_counters,
    claimed,
    decided,
    done,
    expire,
    found,
    kind,
    make_due,
    only,
    row,
    rows,
    running,
    settled,
    statuses,
)

EACH: list[tuple[Outcome, ItemState]] = [
    (Done({"a": 1}, {"b": 2}), ItemState.SUCCEEDED),
    (Skip("a draft"), ItemState.SKIPPED),
    (NotFound("no page"), ItemState.RETRY_WAIT),
    (RetryLater("away"), ItemState.RETRY_WAIT),
    (Bury("bad"), ItemState.DLQ),
    (Unfinished(), ItemState.PENDING),
]


def test_a_try_that_does_not_count_is_written_beside_one_that_does(pool: Engine) -> None:
    job = running(pool, 2)
    one, other = claimed(pool, job)
    both = [decided(one, RetryLater("not yet", counted=False), delay=0.0), decided(other, RetryLater("away"))]
    with transaction(pool) as connection:
        settling.write(connection, job.job_id, both)
    found = [row(pool, each) for each in (one, other)]
    assert [(each.status, each.attempt_count) for each in found] == [("RETRY_WAIT", 0), ("RETRY_WAIT", 1)]
    check_counters(pool, job)


def test_a_suspect_that_is_put_off_stays_one(pool: Engine) -> None:
    """Nobody has worked it, so nobody knows yet whether it kills the next worker as well."""
    job = running(pool, 1)
    expire(pool, claimed(pool, job))
    rescue.run_once(pool, WORK, lambda: 0.0)
    for outcome, counts in ((RetryLater("not yet", counted=False), (1, 1)), (RetryLater("away"), (2, 0))):
        make_due(pool, job)
        (lease,) = claimed(pool, job)
        settled(pool, job, [lease], outcome, delay=0.0)
        after = row(pool, lease)
        assert (after.status, after.attempt_count, after.death_count) == (ItemState.RETRY_WAIT, *counts)


@pytest.mark.parametrize(("outcome", "state"), EACH)
def test_what_is_written(pool: Engine, outcome: Outcome, state: ItemState) -> None:
    job = running(pool, 1)
    (lease,) = claimed(pool, job)
    before = row(pool, lease)
    written = settled(pool, job, [lease], outcome)
    after = row(pool, lease)
    assert after.status == state
    assert after.lease_until is None
    assert after.lease_term == 1
    assert after.updated_at > before.updated_at
    assert (after.due_at is not None) == (state is ItemState.RETRY_WAIT)
    assert after.attempt_count == (0 if state is ItemState.PENDING else 1)
    assert after.not_found_count == isinstance(outcome, NotFound)
    assert (after.result, after.normalized) == (({"a": 1}, {"b": 2}) if state is ItemState.SUCCEEDED else (None, None))
    said = {Skip: "a draft", NotFound: "no page", RetryLater: "away", Bury: "bad"}.get(type(outcome))
    assert after.error_message == said
    assert written == settling.Written((), JobState.RUNNING, int(state in (ItemState.RETRY_WAIT, ItemState.PENDING)))
    check_counters(pool, job)


def test_a_batch_of_all_kinds_moves_the_counters_once(pool: Engine) -> None:
    job = running(pool, 12)
    given = claimed(pool, job)
    with transaction(pool) as connection:
        (before,) = connection.execute("SELECT xmin FROM job WHERE job_id = %s", [job.job_id]).fetchall()
        batch = [decided(lease, EACH[number % 6][0]) for number, lease in enumerate(given)]
        written = settling.write(connection, job.job_id, batch)
        (after,) = connection.execute("SELECT xmin, xmax FROM job WHERE job_id = %s", [job.job_id]).fetchall()
    assert written.open_items == 6
    assert before != after
    counted = found(pool, job)
    assert (counted.succeeded_items, counted.skipped_items, counted.retry_wait_items) == (2, 2, 4)
    assert (counted.dlq_items, counted.pending_items, counted.running_items) == (2, 2, 0)
    check_counters(pool, job)


def test_the_job_is_written_once_for_a_batch(engine: Engine) -> None:
    """No trigger writes the job for each item: with many workers its row would be all they wait for."""
    job = running(engine, 500)
    with transaction(engine) as connection:
        connection.execute(
            "CREATE TABLE seen (n int); CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN INSERT INTO seen VALUES (1); RETURN NULL; END $$;"
            "CREATE TRIGGER see AFTER UPDATE ON job FOR EACH ROW EXECUTE FUNCTION see()"
        )
    settled(engine, job, claimed(engine, job), Done({"x": 1}))
    with transaction(engine) as connection:
        assert connection.execute("SELECT count(*) FROM seen").fetchone() == (2,), "one claim, one settlement"
        triggers = connection.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'job_item'::regclass AND NOT tgisinternal"
        ).fetchone()
    assert triggers == (0,)
    check_counters(engine, job)


def test_an_empty_batch_writes_nothing(pool: Engine) -> None:
    job = running(pool, 1)
    before = found(pool, job)
    with transaction(pool) as connection:
        assert settling.write(connection, job.job_id, []) == settling.Written((), None, None)
    assert found(pool, job) == before


def test_a_success_clears_what_went_wrong_before(pool: Engine) -> None:
    job = running(pool, 1)
    settled(pool, job, claimed(pool, job), RetryLater("away", after=0.0))
    (lease,) = claimed(pool, job)
    settled(pool, job, [lease], Done({"x": 1}))
    after = row(pool, lease)
    assert (after.status, after.error_class, after.error_message) == (ItemState.SUCCEEDED, None, None)
    assert after.attempt_count == 2


def test_giving_back_keeps_what_went_wrong_before(pool: Engine) -> None:
    job = running(pool, 1)
    settled(pool, job, claimed(pool, job), RetryLater("away", after=0.0))
    (lease,) = claimed(pool, job)
    settled(pool, job, [lease], Unfinished())
    after = row(pool, lease)
    assert (after.status, after.error_message, after.attempt_count) == (ItemState.PENDING, "away", 1)
    assert after.due_at is None


def test_misses_are_counted_apart(pool: Engine) -> None:
    job = running(pool, 1)
    settled(pool, job, claimed(pool, job), NotFound("no page"))
    make_due(pool, job)
    (lease,) = claimed(pool, job)
    assert (lease.attempt_count, lease.not_found_count) == (2, 1)
    settled(pool, job, [lease], NotFound("no page"))
    assert row(pool, lease).status == ItemState.NOT_FOUND
    assert found(pool, job).not_found_items == 1
    check_counters(pool, job)


def test_the_last_error_of_a_job_is_a_burial(pool: Engine) -> None:
    job = running(pool, 3)
    one, other, third = claimed(pool, job)
    settled(pool, job, [one], RetryLater("away"))
    assert found(pool, job).last_error is None
    settled(pool, job, [other], Bury("bad"))
    assert found(pool, job).last_error == "k0001: bad"
    settled(pool, job, [third], Done())
    assert found(pool, job).last_error == "k0001: bad"


# Failing fast.

HASTY = only(kind(done, fail_fast=True))


def test_a_burial_fails_a_hasty_job_and_the_others_are_still_written(pool: Engine) -> None:
    job = running(pool, 4, kinds=HASTY)
    one, other, third = claimed(pool, job, 3)
    assert settled(pool, job, [one, other], Bury("bad")).job_status is JobState.FAILED
    assert found(pool, job).finished_at is not None
    assert settled(pool, job, [third], Done()).job_status is JobState.FAILED
    assert (found(pool, job).succeeded_items, found(pool, job).dlq_items, found(pool, job).pending_items) == (1, 2, 1)
    check_counters(pool, job)


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.CANCELLED])
def test_a_burial_in_a_hasty_job_that_is(pool: Engine, state: JobState) -> None:
    job = running(pool, 2, kinds=HASTY)
    (lease,) = claimed(pool, job, 1)
    if state is JobState.PAUSED:
        with transaction(pool) as connection:
            jobs.pause(connection, job.job_key)
    else:
        jobs.cancel(pool, job.job_key)
    settled(pool, job, [lease], Bury("bad"))
    assert found(pool, job).status is (JobState.FAILED if state is JobState.PAUSED else JobState.CANCELLED)
    check_counters(pool, job)


def test_a_burial_in_a_patient_job_fails_nothing(pool: Engine) -> None:
    job = running(pool, 2)
    assert settled(pool, job, claimed(pool, job, 1), Bury("bad")).job_status is JobState.RUNNING


# In a job that was cancelled meanwhile.


@pytest.mark.parametrize(("outcome", "state"), EACH)
def test_in_a_cancelled_job_nothing_waits_any_more(pool: Engine, outcome: Outcome, state: ItemState) -> None:
    job = running(pool, 3)
    (lease,) = claimed(pool, job, 1)
    assert jobs.cancel(pool, job.job_key).cancelled_items == 2
    written = settled(pool, job, [lease], outcome)
    waits = state in (ItemState.PENDING, ItemState.RETRY_WAIT)
    assert row(pool, lease).status == (ItemState.CANCELLED if waits else state)
    assert (written.job_status, written.open_items) == (JobState.CANCELLED, 0)
    check_counters(pool, job)


def test_cancelling_twice_and_in_parts(pool: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "CANCEL_BATCH", 2)
    job = running(pool, 5)
    assert jobs.cancel(pool, job.job_key).cancelled_items == 5
    assert jobs.cancel(pool, job.job_key).cancelled_items == 5
    assert set(statuses(pool, job).values()) == {ItemState.CANCELLED}
    check_counters(pool, job)


def test_a_cancel_passes_by_what_is_locked(pool: Engine) -> None:
    job = running(pool, 3)
    with transaction(pool) as connection:
        connection.execute("SELECT FROM job_item WHERE job_id = %s ORDER BY item_id LIMIT 1 FOR UPDATE", [job.job_id])
        assert jobs.cancel(pool, job.job_key).cancelled_items == 2
    assert jobs.cancel(pool, job.job_key).cancelled_items == 3


# Data in the same transaction.


def test_a_checkpoint_lives_and_dies_with_its_data(pool: Engine) -> None:
    job = running(pool, 1)
    (lease,) = claimed(pool, job)
    with pytest.raises(ZeroDivisionError), transaction(pool) as connection:
        leases.checkpoint(connection, lease, {"line": 7}, FAR)
        raise ZeroDivisionError
    assert row(pool, lease).checkpoint is None
    with transaction(pool) as connection:
        leases.hold(connection, lease)
        leases.checkpoint(connection, lease, {"line": 7}, FAR)
    after = row(pool, lease)
    assert (after.checkpoint, after.status, after.lease_term) == ({"line": 7}, ItemState.RUNNING, 1)
    assert settled(pool, job, [lease], Unfinished()).lost == ()
    (again,) = claimed(pool, job)
    assert again.checkpoint == {"line": 7}


def test_was_it_written_after_all(pool: Engine) -> None:
    """The question after an answer was lost: settled by this very term, or taken by somebody else?"""
    job = running(pool, 4)
    given = claimed(pool, job)
    settled(pool, job, given[:2], Done())
    settled(pool, job, given[2:3], RetryLater("x", after=0.0))
    claimed(pool, job, owner="another")
    batch = [decided(lease, Done()) for lease in given]
    with transaction(pool) as connection:
        assert settling.settled_before(connection, batch) == {lease.item_id for lease in given[:2]}
        assert settling.settled_before(connection, []) == set()


def test_an_item_under_an_old_term_and_under_its_own_in_one_batch(pool: Engine) -> None:
    job = running(pool, 1)
    (old,) = claimed(pool, job)
    settled(pool, job, [old], RetryLater("x", after=0.0))
    (own,) = claimed(pool, job)
    stale = Settled(old.item_id, old.lease_term, decided(old, Bury("stale")).settlement)
    with transaction(pool) as connection:
        settling.write(connection, job.job_id, [stale, decided(own, Done({"own": True}))])
    (after,) = rows(pool, job).values()
    assert (after.status, after.result) == (ItemState.SUCCEEDED, {"own": True})
    check_counters(pool, job)


def test_the_request_says_whether_a_job_is_hasty(pool: Engine) -> None:
    with transaction(pool) as connection:
        assert submission.submit(connection, HASTY, Request("work", "me", {})).job.fail_fast


@pytest.mark.long
def test_large_outcomes_are_written_in_several_statements(pool: Engine) -> None:
    """Together they would be more than one statement takes."""
    count = MOST_JSON // MAX_BYTES + 10
    job = running(pool, count)
    given = claimed(pool, job)
    stale, *valid = given
    expire(pool, [stale])
    assert rescue.run_once(pool, WORK, lambda: 0.0, job.job_id).items == 1
    written = settled(pool, job, given, Done({"text": "x" * (MAX_BYTES - 20)}))
    assert [each.item_id for each in written.lost] == [stale.item_id]
    assert (written.job_status, written.open_items) == (JobState.RUNNING, 1)
    with transaction(pool) as connection:
        query = "SELECT count(*) FROM job_item WHERE job_id = %s AND length(result ->> 'text') > 1000000"
        assert connection.execute(query, [job.job_id]).fetchone() == (len(valid),)
    check_counters(pool, job)
