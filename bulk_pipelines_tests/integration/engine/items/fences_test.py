"""Fences: whoever holds an old term writes nothing, by no statement, not even when both write at the same moment."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import LeaseLost
from bulk_pipelines.engine.items import leases, rescue, settling
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip, Unfinished
from bulk_pipelines_tests.scenes.engine_jobs import (
    FAR,
    WORK,
    check_counters,
    claimed,
    decided,
    expire,
    found,
    make_due,
    row,
    running,
    settled,
)

OUTCOMES: list[Outcome] = [
    Done({"late": True}, {"late": True}),
    NotFound(),
    Skip("late"),
    RetryLater("late"),
    Bury("late"),
    Unfinished(),
]


def rescued(pool: Engine, job: Job, lease: Lease) -> None:
    expire(pool, [lease])
    assert rescue.run_once(pool, WORK, lambda: 0.0).items == 1


def taken_by_another(pool: Engine, job: Job, lease: Lease) -> None:
    rescued(pool, job, lease)
    make_due(pool, job)
    assert [each.item_id for each in claimed(pool, job, owner="another")] == [lease.item_id]


def settled_by_another(pool: Engine, job: Job, lease: Lease) -> None:
    rescued(pool, job, lease)
    make_due(pool, job)
    settled(pool, job, claimed(pool, job, owner="another"), Done({"by": "another"}))


def settled_already(pool: Engine, job: Job, lease: Lease) -> None:
    settled(pool, job, [lease], Done({"first": True}))


def given_back(pool: Engine, job: Job, lease: Lease) -> None:
    settled(pool, job, [lease], Unfinished())


LOSSES = [rescued, taken_by_another, settled_by_another, settled_already, given_back]
Loss = Callable[[Engine, Job, Lease], None]


@pytest.fixture(params=LOSSES, ids=lambda loss: loss.__name__)
def lost(pool: Engine, request: pytest.FixtureRequest) -> tuple[Job, Lease]:
    """A job, and a lease of its one item that is over."""
    job = running(pool, 1)
    (lease,) = claimed(pool, job)
    request.param(pool, job, lease)
    return job, lease


def everything(pool: Engine, job: Job, lease: Lease) -> tuple[object, object]:
    return row(pool, lease), found(pool, job)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_a_late_settlement_writes_nothing(pool: Engine, lost: tuple[Job, Lease], outcome: Outcome) -> None:
    job, lease = lost
    before = everything(pool, job, lease)
    written = settled(pool, job, [lease], outcome)
    assert [each.item_id for each in written.lost] == [lease.item_id]
    assert (written.job_status, written.open_items) == (None, None)
    assert everything(pool, job, lease) == before


def test_a_late_renewal_writes_nothing(pool: Engine, lost: tuple[Job, Lease]) -> None:
    job, lease = lost
    before = everything(pool, job, lease)
    with transaction(pool) as connection:
        assert leases.renew(connection, [lease], FAR) == set()
    assert everything(pool, job, lease) == before


def test_a_late_hold_is_refused(pool: Engine, lost: tuple[Job, Lease]) -> None:
    _, lease = lost
    said = f"lease {lease.lease_term} of item {lease.item_id}"
    with pytest.raises(LeaseLost, match=said), transaction(pool) as connection:
        leases.hold(connection, lease)


def test_a_late_checkpoint_takes_its_data_with_it(pool: Engine, lost: tuple[Job, Lease]) -> None:
    job, lease = lost
    before = everything(pool, job, lease)
    with transaction(pool) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS loaded (n int)")
    with pytest.raises(LeaseLost), transaction(pool) as connection:
        connection.execute("INSERT INTO loaded VALUES (1)")
        leases.checkpoint(connection, lease, {"line": 7}, FAR)
    with transaction(pool) as connection:
        assert connection.execute("SELECT count(*) FROM loaded").fetchone() == (0,)
    assert everything(pool, job, lease) == before


def test_a_late_rescue_writes_nothing(pool: Engine, lost: tuple[Job, Lease]) -> None:
    job, lease = lost
    before = everything(pool, job, lease)
    with transaction(pool) as connection:
        late = decided(lease, RetryLater("late"))
        assert settling.write(connection, job.job_id, [late], rescue=True).lost == (late,)
    assert everything(pool, job, lease) == before


def test_the_lost_ones_of_a_batch_are_named_and_the_others_written(pool: Engine) -> None:
    job = running(pool, 10)
    given = claimed(pool, job)
    settled(pool, job, given[:3], Skip("first"))
    written = settled(pool, job, given, Done({"x": 1}))
    assert {each.item_id for each in written.lost} == {lease.item_id for lease in given[:3]}
    assert found(pool, job).succeeded_items == 7
    assert found(pool, job).skipped_items == 3
    check_counters(pool, job)


def test_the_same_item_twice_in_a_batch_counts_once(pool: Engine) -> None:
    job = running(pool, 2)
    one, other = claimed(pool, job)
    settled(pool, job, [one, one, other, other], Done({"x": 1}))
    assert found(pool, job).succeeded_items == 2
    check_counters(pool, job)
