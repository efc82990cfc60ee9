"""The settler renews the leases of what its worker holds, as long as its items get on."""

from collections.abc import Callable

from sqlalchemy import Engine

from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.worker.settler import Settler
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines_tests.scenes.engine_jobs import WORK, check_counters, claimed, expire, row, running, statuses
from bulk_pipelines_tests.scenes.passing_time import Clock
from bulk_pipelines_tests.scenes.settlers import LEASE, NEVER, add
from bulk_pipelines_tests.scenes.waiting import until


def holding(pool: Engine, size: int, clock: Clock, item_timeout: float = NEVER) -> tuple[Job, list[Lease], Settler]:
    job = running(pool, size)
    given = claimed(pool, job, seconds=LEASE)
    writer = Settler(pool, job.job_id, lambda: LEASE, item_timeout, SettlerLimits(flush_seconds=0.01), clock)
    writer.hold(given)
    return job, given, writer


def renewed(pool: Engine, lease: Lease, before: object) -> Callable[[], bool]:
    return lambda: row(pool, lease).lease_until != before


def test_leases_are_renewed_in_time(pool: Engine) -> None:
    """Leases are renewed when a third of their length is over; those that are done with are left alone."""
    clock = Clock()
    job, given, writer = holding(pool, 3, clock)
    before = {lease.item_id: row(pool, lease) for lease in given}
    writer.begin(given[0])
    add(writer, given[2:])
    writer.drain()
    clock.pass_by(LEASE / 3 - 1)
    writer.flush()
    assert row(pool, given[0]).lease_until == before[given[0].item_id].lease_until
    clock.pass_by(2)
    for lease in given[:2]:
        until(renewed(pool, lease, before[lease.item_id].lease_until), "the lease is renewed")
        assert row(pool, lease).updated_at == before[lease.item_id].updated_at, "a renewal is no move"
    assert row(pool, given[2]).lease_until is None
    writer.stop()
    check_counters(pool, job)


def test_leases_that_were_given_while_items_were_quick_are_renewed_by_their_own_length(pool: Engine) -> None:
    """A third of the new, longer one may come after their end."""
    job = running(pool, 2)
    length = [LEASE]
    clock = Clock()
    writer = Settler(pool, job.job_id, lambda: length[0], NEVER, SettlerLimits(), clock)
    given = claimed(pool, job, seconds=LEASE)
    before = row(pool, given[0]).lease_until
    writer.hold(given)
    length[0] = 20 * LEASE
    clock.pass_by(LEASE / 3 + 1)
    until(renewed(pool, given[0], before), "the lease is renewed")
    writer.stop()


def test_a_lease_that_is_found_lost_is_not_begun(pool: Engine) -> None:
    clock = Clock()
    job, given, writer = holding(pool, 2, clock)
    expire(pool, given[:1])
    rescue.run_once(pool, WORK, lambda: 0.0, job.job_id)
    assert writer.begin(given[0]), "nobody knows yet"
    clock.pass_by(LEASE)
    until(lambda: given[0].item_id not in writer.held, "the renewal finds it out")
    assert not writer.begin(given[0])
    assert writer.begin(given[1])
    writer.stop()


def test_a_handler_that_hangs_keeps_neither_its_item_nor_those_behind_it(pool: Engine) -> None:
    clock = Clock()
    job, given, writer = holding(pool, 3, clock, item_timeout=100.0)
    before = row(pool, given[0]).lease_until
    writer.begin(given[0])
    clock.pass_by(101)
    until(lambda: list(statuses(pool, job).values()).count(ItemState.PENDING) == 2, "the others are given back")
    assert row(pool, given[0]).lease_until == before
    assert [row(pool, lease).attempt_count for lease in given] == [1, 0, 0]
    assert not writer.begin(given[1])
    writer.stop()
    check_counters(pool, job)


def test_a_renewal_that_fails_is_tried_again(own_server: Server, own_pool: Engine) -> None:
    clock = Clock()
    _, given, writer = holding(own_pool, 1, clock)
    before = row(own_pool, given[0]).lease_until
    own_server.stop_immediately()
    clock.pass_by(LEASE / 2)
    until(lambda: writer.renewed_at == clock.now, "the renewal was tried")
    assert writer.failure is None
    own_server.start()
    clock.pass_by(LEASE / 2)
    until(renewed(own_pool, given[0], before), "the lease is renewed")
    writer.stop()
