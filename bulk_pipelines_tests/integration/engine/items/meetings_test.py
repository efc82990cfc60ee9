"""Fences when two write at the same moment: the second waits for the first, and finds its lease lost, or passes by."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import LeaseLost
from bulk_pipelines.engine.items import leases, rescue, settling
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Done
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines_tests.scenes.engine_jobs import (
    FAR,
    WORK,
    check_counters,
    claimed,
    decided,
    expire,
    row,
    running,
)
from bulk_pipelines_tests.scenes.waiting import until


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def waits(pool: Engine, future: "Future[Any]", query: str) -> bool:
    """Whether a session is waiting for a lock with this statement."""
    if future.done():
        future.result()
        raise AssertionError("it did not wait")
    with transaction(pool) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND query LIKE %s",
            [f"%{query}%"],
        ).fetchone()
    return found is not None and found[0] == 1


def meeting(
    pool: Engine,
    elsewhere: ThreadPoolExecutor,
    first: Callable[[psycopg.Connection[Any]], Any],
    second: Callable[[psycopg.Connection[Any]], Any],
    query: str,
) -> Any:
    """What `second` comes to when it begins while `first` has written and not committed."""

    def alone() -> Any:
        with transaction(pool) as connection:
            return second(connection)

    with transaction(pool) as connection:
        first(connection)
        future = elsewhere.submit(alone)
        until(lambda: waits(pool, future, query), "the second waits for the first")
    return future.result(timeout=30)


def rescue_in(connection: psycopg.Connection[Any], job: Job) -> None:
    expired = rescue.expired(connection, job.job_id)
    assert expired
    for job_id, batch in rescue.decisions(expired, WORK, lambda: 0.0).items():
        settling.write(connection, job_id, batch, rescue=True)


def rescue_and_claim_in(connection: psycopg.Connection[Any], job: Job) -> None:
    rescue_in(connection, job)
    assert leases.claim(connection, job.job_id, owner="another", most=1, lease_seconds=FAR)


@pytest.mark.parametrize("first", [rescue_in, rescue_and_claim_in])
def test_a_settlement_that_meets_a_rescue(
    pool: Engine, elsewhere: ThreadPoolExecutor, first: Callable[[Any, Job], None]
) -> None:
    job = running(pool, 1)
    (lease,) = claimed(pool, job)
    expire(pool, [lease])
    written = meeting(
        pool,
        elsewhere,
        lambda connection: first(connection, job),
        lambda connection: settling.write(connection, job.job_id, [decided(lease, Done({"late": True}))]),
        "settled AS",
    )
    assert [each.item_id for each in written.lost] == [lease.item_id]
    assert row(pool, lease).status in (ItemState.RETRY_WAIT, ItemState.RUNNING)
    assert row(pool, lease).result is None
    check_counters(pool, job)


def test_two_settlements_of_one_lease_that_meet(pool: Engine, elsewhere: ThreadPoolExecutor) -> None:
    job = running(pool, 1)
    (lease,) = claimed(pool, job)
    written = meeting(
        pool,
        elsewhere,
        lambda connection: settling.write(connection, job.job_id, [decided(lease, Done({"who": "first"}))]),
        lambda connection: settling.write(connection, job.job_id, [decided(lease, Done({"who": "second"}))]),
        "settled AS",
    )
    assert [each.item_id for each in written.lost] == [lease.item_id]
    assert row(pool, lease).result == {"who": "first"}
    check_counters(pool, job)


def lost_to(
    first: Callable[[Any, Job], None],
    pool: Engine,
    elsewhere: ThreadPoolExecutor,
    second: Callable[[psycopg.Connection[Any], Lease], Any],
    query: str,
) -> Lease:
    """Return a lease that had run out, and that `second` finds lost because `first` was there before it."""
    job = running(pool, 1)
    (lease,) = claimed(pool, job)
    expire(pool, [lease])
    with pytest.raises(LeaseLost):
        meeting(
            pool,
            elsewhere,
            lambda connection: first(connection, job),
            lambda connection: second(connection, lease),
            query,
        )
    return lease


@pytest.mark.parametrize("first", [rescue_in, rescue_and_claim_in])
def test_a_checkpoint_that_meets_a_rescue(
    pool: Engine, elsewhere: ThreadPoolExecutor, first: Callable[[Any, Job], None]
) -> None:
    lease = lost_to(
        first,
        pool,
        elsewhere,
        lambda connection, lease: leases.checkpoint(connection, lease, {"late": True}, FAR),
        "SET checkpoint",
    )
    assert row(pool, lease).checkpoint is None


@pytest.mark.parametrize("first", [rescue_in, rescue_and_claim_in])
def test_a_hold_that_meets_a_rescue(
    pool: Engine, elsewhere: ThreadPoolExecutor, first: Callable[[Any, Job], None]
) -> None:
    lost_to(first, pool, elsewhere, leases.hold, "FOR NO KEY UPDATE")


@pytest.mark.parametrize("first", [rescue_in, rescue_and_claim_in])
def test_a_renewal_passes_by_what_is_being_rescued(pool: Engine, first: Callable[[Any, Job], None]) -> None:
    """A renewal does not wait: a handler's own transaction may hold the row, and the other leases must be renewed in
    time."""
    job = running(pool, 3)
    given = claimed(pool, job)
    expire(pool, given[:1])
    with transaction(pool) as one:
        first(one, job)
        with transaction(pool) as other:
            other.execute("SET LOCAL lock_timeout = '5s'")
            assert leases.renew(other, given, 2 * FAR) >= {lease.item_id for lease in given[1:]}
    with transaction(pool) as connection:
        assert leases.renew(connection, given, 2 * FAR) == {lease.item_id for lease in given[1:]}


def test_a_rescue_and_a_claim_pass_by_what_a_transaction_of_data_holds(pool: Engine) -> None:
    """The lease runs out while the item's data are being written: nobody else writes them a second time."""
    job = running(pool, 1)
    given = claimed(pool, job)
    expire(pool, given)
    with transaction(pool) as connection:
        leases.hold(connection, given[0])
        assert rescue.run_once(pool, WORK, lambda: 0.0).items == 0
        assert claimed(pool, job) == []
        leases.checkpoint(connection, given[0], {"line": 1}, FAR)
    assert rescue.run_once(pool, WORK, lambda: 0.0).items == 0
    assert row(pool, given[0]).checkpoint == {"line": 1}


def test_a_renewal_does_not_wait_for_a_transaction_of_data(pool: Engine) -> None:
    job = running(pool, 2)
    given = claimed(pool, job, seconds=60)
    before = [row(pool, lease).lease_until for lease in given]
    with transaction(pool) as connection:
        leases.hold(connection, given[0])
        with transaction(pool) as settler:
            settler.execute("SET LOCAL lock_timeout = '5s'")
            kept = leases.renew(settler, given, FAR)
    assert kept == {lease.item_id for lease in given}, "what its own worker has locked is not lost"
    after = [row(pool, lease).lease_until for lease in given]
    assert after[0] == before[0]
    assert after[1] is not None
    assert before[1] is not None
    assert after[1] > before[1]


def test_the_settlement_names_the_term_where_it_writes() -> None:
    """An UPDATE that has waited for somebody else's write looks at its own conditions again, and at nothing else: the
    fence must be one of them."""
    text = queries.text("items", "settle_items")
    update = text[text.index("UPDATE job_item") : text.index("RETURNING item.item_id")]
    condition = update[update.rindex("WHERE") :]
    assert "CASE WHEN item.lease_until IS NOT NULL THEN item.lease_term = o.lease_term END" in condition


def test_claims_at_once_share_nothing(pool: Engine) -> None:
    """Eight connections claim at the same time until nothing is left."""
    job = running(pool, 400)
    ready = threading.Barrier(8)

    def take(owner: int) -> list[Lease]:
        ready.wait()
        taken: list[Lease] = []
        while batch := claimed(pool, job, 7, owner=f"w{owner}"):
            taken += batch
        return taken

    with ThreadPoolExecutor(8) as executor:
        taken = [lease for each in executor.map(take, range(8)) for lease in each]
    assert len(taken) == len({lease.item_id for lease in taken}) == 400
    assert {lease.lease_term for lease in taken} == {1}
    check_counters(pool, job)
