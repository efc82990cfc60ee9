"""Rescue: what a dead worker held is tried again, until it is clear that it is the item that kills."""

from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import claims as worker_claims
from bulk_pipelines.engine.items import leases, rescue
from bulk_pipelines.engine.items.rescue import Rescued
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.outcomes import Done, RetryLater, Unfinished
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines_tests.scenes.engine_jobs import (
    FAR,
    WORK,
    check_counters,
    claimed,
    claims,
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


def rescued(pool: Engine, job: jobs.Job, kinds: Kinds = WORK) -> Rescued:
    return rescue.run_once(pool, kinds, lambda: 0.0, job.job_id)


def test_a_lease_that_ran_out_goes_back(pool: Engine) -> None:
    job = running(pool, 3)
    given = claimed(pool, job, owner="w1")
    expire(pool, given[:2])
    assert rescued(pool, job) == Rescued(retried=2)
    after = row(pool, given[0])
    assert (after.status, after.error_class) == (ItemState.RETRY_WAIT, "died")
    assert after.error_message == "the lease of w1 ran out"
    assert (after.attempt_count, after.death_count, after.lease_term) == (1, 1, 2)
    assert row(pool, given[2]).status == ItemState.RUNNING
    assert rescued(pool, job) == Rescued()
    check_counters(pool, job)


def test_a_lease_that_is_renewed_is_left_alone(pool: Engine) -> None:
    job = running(pool, 1)
    given = claimed(pool, job)
    expire(pool, given)
    with transaction(pool) as connection:
        assert leases.renew(connection, given, FAR) == {given[0].item_id}
    assert rescued(pool, job) == Rescued()


def test_the_third_death_buries_it_and_says_why(pool: Engine) -> None:
    job = running(pool, 1)
    for death in range(1, 4):
        make_due(pool, job)
        (lease,) = claimed(pool, job, owner=f"w{death}")
        expire(pool, [lease])
        assert rescued(pool, job) == (Rescued(buried=1) if death == 3 else Rescued(retried=1))
    after = row(pool, lease)
    assert (after.status, after.death_count) == (ItemState.DLQ, 3)
    assert after.error_message == "poison pill: 3 workers died on it, the last one w3"
    assert str(found(pool, job).last_error).startswith("k0000: poison pill")
    check_counters(pool, job)


def test_one_that_gets_on_begins_anew(pool: Engine) -> None:
    """An item that came further between the deaths of its workers was unlucky, and its deaths are counted anew."""
    job = running(pool, 1)
    for _ in range(6):
        make_due(pool, job)
        (lease,) = claimed(pool, job)
        with transaction(pool) as connection:
            leases.checkpoint(connection, lease, {"at": lease.lease_term}, FAR)
        expire(pool, [lease])
        assert rescued(pool, job) == Rescued(retried=1)
    after = row(pool, lease)
    assert (after.status, after.death_count, after.attempt_count) == (ItemState.RETRY_WAIT, 1, 1)


def test_one_that_fails_by_itself_between_two_deaths_is_no_poison(pool: Engine) -> None:
    job = running(pool, 1)
    strict = only(kind(done, retry=RetryPolicy(max_deaths=2)))
    for _ in range(2):
        make_due(pool, job)
        (lease,) = claimed(pool, job)
        expire(pool, [lease])
        assert rescued(pool, job, strict) == Rescued(retried=1)
        make_due(pool, job)
        settled(pool, job, claimed(pool, job), RetryLater("away", after=0.0))
    assert row(pool, lease).death_count == 0


def test_the_kinds_own_policy_decides(pool: Engine) -> None:
    strict = only(kind(done, retry=RetryPolicy(max_deaths=1)))
    job = running(pool, 1, kinds=strict)
    expire(pool, claimed(pool, job))
    assert rescued(pool, job, strict) == Rescued(buried=1)


def test_a_kind_that_this_process_does_not_know_is_rescued_all_the_same(pool: Engine) -> None:
    job = running(pool, 1)
    expire(pool, claimed(pool, job))
    assert rescued(pool, job, Kinds([])) == Rescued(retried=1)


def test_all_jobs_at_once_and_more_than_a_batch(pool: Engine) -> None:
    given = [running(pool, size) for size in (5, rescue.BATCH, 5)]
    for job in given:
        expire(pool, claimed(pool, job, 2 * rescue.BATCH))
    assert rescue.run_once(pool, WORK, lambda: 0.0) == Rescued(retried=10 + rescue.BATCH)
    for job in given:
        assert set(statuses(pool, job).values()) == {ItemState.RETRY_WAIT}
        check_counters(pool, job)


def test_in_whatever_state_their_job_is(pool: Engine) -> None:
    for state in (JobState.PAUSED, JobState.FAILED, JobState.CANCELLED):
        job = running(pool, 1)
        (lease,) = claimed(pool, job)
        expire(pool, [lease])
        with transaction(pool) as connection:
            if state is JobState.PAUSED:
                jobs.pause(connection, job.job_key)
            elif state is JobState.FAILED:
                jobs.fail(connection, job.job_key, "x")
        if state is JobState.CANCELLED:
            jobs.cancel(pool, job.job_key)
        assert rescued(pool, job) == Rescued(retried=1)
        expected = ItemState.CANCELLED if state is JobState.CANCELLED else ItemState.RETRY_WAIT
        assert row(pool, lease).status == expected
        assert found(pool, job).status is state
        check_counters(pool, job)


def test_a_burial_by_rescue_fails_a_hasty_job(pool: Engine) -> None:
    hasty = only(kind(done, fail_fast=True, retry=RetryPolicy(max_deaths=1)))
    job = running(pool, 2, kinds=hasty)
    expire(pool, claimed(pool, job, 1))
    rescued(pool, job, hasty)
    assert found(pool, job).status is JobState.FAILED


def test_many_rescue_at_once_and_each_death_counts_once(pool: Engine) -> None:
    given = [running(pool, 40) for _ in range(3)]
    for job in given:
        expire(pool, claimed(pool, job))
    with ThreadPoolExecutor(6) as executor:
        found_all = list(executor.map(lambda _: rescue.run_once(pool, WORK, lambda: 0.0), range(6)))
    assert sum(each.items for each in found_all) == 120
    for job in given:
        check_counters(pool, job)
        assert {lease.death_count for lease in claimed(pool, job)} == {1}


def test_the_worker_that_comes_back_late_has_lost(pool: Engine) -> None:
    job = running(pool, 1)
    (lease,) = claimed(pool, job)
    expire(pool, [lease])
    rescued(pool, job)
    assert settled(pool, job, [lease], Done({"late": True})).lost != ()
    assert row(pool, lease).status == ItemState.RETRY_WAIT


def test_a_rescue_is_no_heartbeat(pool: Engine) -> None:
    """The sweeper's work must not make a job look alive that nobody works."""
    job = running(pool, 1)
    expire(pool, claimed(pool, job))
    before = found(pool, job).heartbeat_at
    rescued(pool, job)
    assert found(pool, job).heartbeat_at == before


def test_a_claim_goes_with_the_last_lease_of_it(pool: Engine) -> None:
    job = running(pool, 4)
    given = claimed(pool, job, 3, owner="dead")
    claimed(pool, job, owner="alive")
    expire(pool, given[:2])
    assert claims(pool, job) == [("dead", True), ("alive", False)]
    assert rescued(pool, job) == Rescued(retried=2)
    assert claims(pool, job) == [("dead", False), ("alive", False)]
    expire(pool, given[2:])
    assert rescued(pool, job) == Rescued(retried=1)
    assert claims(pool, job) == [("alive", False)]


def test_a_claim_that_nobody_forgot_goes(pool: Engine) -> None:
    """The worker of the claim died when all of it was settled; others hold its items since."""
    job = running(pool, 2)
    given = claimed(pool, job, owner="dead")
    settled(pool, job, given, Unfinished())
    again = claimed(pool, job, owner="alive")
    expire(pool, given)
    with transaction(pool) as connection:
        leases.renew(connection, again, FAR)
    assert claims(pool, job) == [("dead", True), ("alive", True)]
    assert rescued(pool, job) == Rescued()
    assert claims(pool, job) == [("alive", False)]
    assert {each.lease_owner for each in rows(pool, job).values()} == {"alive"}


def test_an_item_that_is_named_by_two_claims_is_rescued_once(pool: Engine) -> None:
    job = running(pool, 1)
    settled(pool, job, claimed(pool, job, owner="w"), Unfinished())
    expire(pool, claimed(pool, job, owner="w"))
    assert rescued(pool, job) == Rescued(retried=1)
    check_counters(pool, job)
    assert claims(pool, job) == []


def test_a_lease_is_never_made_shorter(pool: Engine) -> None:
    """The claim would say that nothing has to be looked at before the first, longer one was over."""
    job = running(pool, 2)
    given = claimed(pool, job, seconds=FAR)
    before = rows(pool, job)
    with transaction(pool) as connection:
        leases.renew(connection, given, 1)
        leases.checkpoint(connection, given[0], {"at": 1}, 1)
    assert [row.lease_until for row in rows(pool, job).values()] == [row.lease_until for row in before.values()]


def test_held_items_whose_claim_is_lost_are_found_again(pool: Engine) -> None:
    """A server that forgets what it has confirmed may bring a lease back whose claim its worker has taken away."""
    job = running(pool, 3)
    claimed(pool, job, 2, owner="w1", seconds=-1)
    claimed(pool, job, owner="w2")
    with transaction(pool) as connection:
        connection.execute("DELETE FROM claim WHERE job_id = %s", [job.job_id])
    assert rescued(pool, job) == Rescued()
    assert rescue.name_unnamed(pool) == 3
    assert rescue.name_unnamed(pool) == 0
    assert rescued(pool, job) == Rescued(retried=2)
    assert claims(pool, job) == [("w2", False)]


def test_a_rescue_that_falls_asleep_holds_up_no_claim(pool: Engine) -> None:
    job = running(pool, 4)
    given = claimed(pool, job, 2, owner="w")
    expire(pool, given)
    settled(pool, job, given, Done())
    with transaction(pool) as asleep:
        asleep.execute("SELECT FROM claim WHERE job_id = %s FOR UPDATE", [job.job_id])
        with transaction(pool) as connection:
            connection.execute("SET LOCAL lock_timeout = '5s'")
            more = leases.claim(connection, job.job_id, owner="w", most=2, lease_seconds=FAR, over=[given[0].claim_id])
            worker_claims.forget(connection, [given[0].claim_id])
    assert len(more) == 2
    assert rescued(pool, job) == Rescued()
    assert claims(pool, job) == [("w", False)]
