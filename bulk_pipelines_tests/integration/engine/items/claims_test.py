"""Claims: who gets what, in which order, and only from a job that is running."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import leases, rescue, settling
from bulk_pipelines.engine.items.leases import ClaimUndone
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.outcomes import Done, RetryLater, Unfinished
from bulk_pipelines.engine.states import ItemState, JobEvent, JobState
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.work import Slice
from bulk_pipelines_tests.scenes.engine_jobs import (
    FAR,
    WORK,
    check_counters,
    claimed,
    claims,
    decided,
    expire,
    found,
    keys,
    kind,
    make_due,
    only,
    rows,
    rows_of,
    running,
    settled,
    statuses,
    submitted,
    waiting_for_locks,
)
from bulk_pipelines_tests.scenes.waiting import until


def test_a_lease_is_the_item_as_it_is(pool: Engine) -> None:
    job = running(pool, [("k", {"deep": {"list": [1, 2]}, "text": "é"})])
    (lease,) = claimed(pool, job, owner="w1", seconds=60)
    assert (lease.item_key, lease.input) == ("k", {"deep": {"list": [1, 2]}, "text": "é"})
    assert (lease.lease_term, lease.attempt_count, lease.not_found_count, lease.death_count) == (1, 1, 0, 0)
    assert (lease.normalized, lease.checkpoint) == (None, None)
    (row,) = rows(pool, job).values()
    assert (row.status, row.lease_owner) == (ItemState.RUNNING, "w1")
    assert row.lease_until is not None
    assert (row.lease_until - row.updated_at).total_seconds() == pytest.approx(60, abs=0.01)
    assert (found(pool, job).pending_items, found(pool, job).running_items) == (0, 1)


def test_the_oldest_first_and_no_more_than_asked_for(pool: Engine) -> None:
    job = running(pool, 10)
    assert sorted(lease.item_key for lease in claimed(pool, job, 4)) == keys(10)[:4]
    assert sorted(lease.item_key for lease in claimed(pool, job, 4)) == keys(10)[4:8]
    assert sorted(lease.item_key for lease in claimed(pool, job, 4)) == keys(10)[8:]
    assert claimed(pool, job, 4) == []
    check_counters(pool, job)


def test_a_claim_writes_no_index(pool: Engine) -> None:
    """Each version it makes lies in the page of the one before, where the indexes find it: PostgreSQL counts these."""
    job = running(pool, 2_000)
    counts = ", ".join(f"pg_stat_get_xact_tuples_{what}('job_item'::regclass)" for what in ("updated", "hot_updated"))
    with transaction(pool) as connection:
        before = connection.execute(f"SELECT {counts}").fetchone() or ()
        leases.claim(connection, job.job_id, owner="w", most=1_000, lease_seconds=60)
        after = connection.execute(f"SELECT {counts}").fetchone() or ()
    assert [new - old for old, new in zip(before, after, strict=True)] == [1_000, 1_000]


def test_a_worker_forgets_the_claims_of_which_it_holds_nothing(pool: Engine) -> None:
    kinds = only(kind(slices=SliceLimits(first_claim=10, max_claim=10)))
    job = running(pool, 100, kinds=kinds)
    seen: list[int] = []

    def look(_slice: Slice) -> None:
        worker.settler.drain()
        seen.append(len(claims(pool, job)))

    with Worker(pool, kinds, job) as worker:
        drain(worker, on_slice=look)
    assert seen == [1] * 10, "the present one"
    assert claims(pool, job) == []


def test_a_worker_forgets_no_claim_of_which_it_may_hold_something(pool: Engine) -> None:
    """The worker claims again while the outcomes of its last claims are not written yet."""
    kinds = only(kind(slices=SliceLimits(first_claim=10, max_claim=10)))
    job = running(pool, 50, kinds=kinds)
    with Worker(pool, kinds, job, settler_limits=SettlerLimits(flush_at=1_000, flush_seconds=FAR)) as worker:
        for number in range(1, 6):
            worker.run_once()
            assert len(claims(pool, job)) == number
    assert claims(pool, job) == []


def test_what_is_given_back_goes_to_the_end(pool: Engine) -> None:
    """Else an item that nobody finishes would keep the others from their turn."""
    job = running(pool, 3)
    settled(pool, job, claimed(pool, job, 1), Unfinished())
    assert [claimed(pool, job, 1)[0].item_key for _ in range(3)] == ["k0001", "k0002", "k0000"]


def test_due_retries_before_what_is_pending(pool: Engine) -> None:
    job = running(pool, 6)
    one, other, third = claimed(pool, job, 3)
    settled(pool, job, [one], RetryLater("x", after=0.0))
    settled(pool, job, [other], RetryLater("x", after=0.0))
    settled(pool, job, [third], RetryLater("x", after=1_000))
    assert {lease.item_key for lease in claimed(pool, job, 3)} == {"k0000", "k0001", "k0003"}
    assert {lease.item_key for lease in claimed(pool, job, 9)} == {"k0004", "k0005"}
    make_due(pool, job)
    (again,) = claimed(pool, job, 9)
    assert (again.item_key, again.attempt_count, again.lease_term) == ("k0002", 2, 2)
    check_counters(pool, job)


def test_of_the_due_the_one_that_waited_longest(pool: Engine) -> None:
    job = running(pool, 3)
    for lease, due in zip(claimed(pool, job), (0.0, -20.0, -10.0), strict=True):
        settled(pool, job, [lease], RetryLater("x", after=0.0))
        with transaction(pool) as connection:
            connection.execute(
                "UPDATE job_item SET due_at = now() + make_interval(secs => %s) WHERE item_id = %s",
                [due, lease.item_id],
            )
    assert [claimed(pool, job, 1)[0].item_key for _ in range(3)] == ["k0001", "k0002", "k0000"]


def test_a_suspect_is_claimed_alone(pool: Engine) -> None:
    """A worker died with these; the next death must tell which of them it was."""
    job = running(pool, 5)
    suspects = claimed(pool, job, 2, owner="dead")
    expire(pool, suspects)
    rescue.run_once(pool, WORK, lambda: 0.0, job.job_id)
    first, second = claimed(pool, job, 9), claimed(pool, job, 9)
    assert {(len(first), len(second))} == {(1, 1)}
    assert {first[0].item_key, second[0].item_key} == {"k0000", "k0001"}
    assert first[0].death_count == 1
    assert len(claimed(pool, job, 9)) == 3
    # One that gets on is above suspicion.
    settled(pool, job, first, RetryLater("x", after=0.0))
    settled(pool, job, second, RetryLater("x", after=0.0))
    assert len(claimed(pool, job, 9)) == 2
    check_counters(pool, job)


def test_a_suspect_that_waits_does_not_hold_up_the_others(pool: Engine) -> None:
    job = running(pool, 5)
    expire(pool, claimed(pool, job, 1))
    rescue.run_once(pool, WORK, lambda: 0.9, job.job_id)
    assert len(claimed(pool, job, 9)) == 4


@pytest.mark.parametrize("state", [JobState.SUBMITTED, JobState.PAUSED, JobState.FAILED, JobState.CANCELLED])
def test_only_a_running_job_gives_items(pool: Engine, state: JobState) -> None:
    job = submitted(pool, 3)
    with transaction(pool) as connection:
        if state is JobState.PAUSED:
            jobs.pause(connection, job.job_key)
        elif state is JobState.FAILED:
            jobs.fail(connection, job.job_key, "x")
    if state is JobState.CANCELLED:
        jobs.cancel(pool, job.job_key)
    assert found(pool, job).status is state
    assert claimed(pool, job) == []
    check_counters(pool, job)


@pytest.mark.parametrize("act", ["pause", "cancel", "fail"])
def test_a_claim_that_meets_the_end_is_taken_back(pool: Engine, act: str) -> None:
    """The claim looked at the job while it was running, and comes to its counters when it is not any more."""
    job = running(pool, 3)
    with ThreadPoolExecutor(1) as executor:
        with transaction(pool) as connection:
            if act == "pause":
                jobs.pause(connection, job.job_key)
            elif act == "cancel":
                jobs.move(connection, job.job_key, JobEvent.CANCEL)
            else:
                jobs.fail(connection, job.job_key, "x")
            future = executor.submit(claimed, pool, job)
            until(lambda: waiting_for_locks(pool) == 1, "the claim waits for the job's row with its items in hand")
        with pytest.raises(ClaimUndone):
            future.result(timeout=30)
    assert set(statuses(pool, job).values()) == {ItemState.PENDING}
    assert {row.lease_term for row in rows(pool, job).values()} == {0}
    check_counters(pool, job)


def test_a_claim_does_not_wait_for_items_in_others_hands(pool: Engine) -> None:
    job = running(pool, 5)
    with transaction(pool) as connection:
        connection.execute("SELECT FROM job_item WHERE job_id = %s ORDER BY item_id LIMIT 2 FOR UPDATE", [job.job_id])
        with transaction(pool) as other:
            other.execute("SET LOCAL lock_timeout = '5s'")
            taken = leases.claim(other, job.job_id, owner="w", most=9, lease_seconds=60)
    assert sorted(lease.item_key for lease in taken) == keys(5)[2:]


def test_jobs_do_not_take_each_others_items(pool: Engine) -> None:
    one, other = running(pool, 3), running(pool, 3)
    assert {lease.item_id for lease in claimed(pool, one)} == {row.item_id for row in rows(pool, one).values()}
    assert set(statuses(pool, other).values()) == {ItemState.PENDING}


def test_an_item_moves_on_in_time_with_every_step(pool: Engine) -> None:
    """Moves in one transaction have one now(): each still comes after the one before."""
    job = running(pool, 1)
    seen = []
    with transaction(pool) as connection:

        def look() -> None:
            (item,) = rows_of(connection, job.job_id).values()
            seen.append(item.updated_at)

        for _ in range(3):
            (lease,) = leases.claim(connection, job.job_id, owner="w", most=1, lease_seconds=60)
            look()
            leases.checkpoint(connection, lease, {}, 60)
            look()
            settling.write(connection, job.job_id, [decided(lease, Unfinished())])
            look()
    assert len(seen) == 9
    assert seen == sorted(set(seen))
    settled(pool, job, claimed(pool, job), Done())
