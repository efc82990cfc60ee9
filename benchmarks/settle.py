"""Eight workers finish the items of one job. Either they settle the items one by one, each in its own transaction with
the job's counter, or they hand them to a Settler, which writes them in batches. Both ways write by the same statement,
as fast as they can.

The items are claimed before the clock starts. The transactions are those that the server counted. A backend has
reported all of its transactions once it is gone, so they are read when the last backend is gone.
"""

import threading
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from sqlalchemy import Engine

from benchmarks import measure
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.items import leases, settling
from bulk_pipelines.engine.items.settling import Settled
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.outcomes import Done
from bulk_pipelines.engine.states import ItemEvent
from bulk_pipelines.engine.worker.retry import Settlement
from bulk_pipelines.engine.worker.settler import Settler

WORKERS = 8
ITEMS_EACH = 1_000
ROUNDS = 3
LEASE_SECONDS = 600.0
KINDS = Kinds([Kind("no-op", lambda _lease, _tools: Done())])

Way = Callable[[Engine, int, Sequence[Settled]], None]
"""How one worker settles its items."""


class Cost(NamedTuple):
    transactions: int
    seconds: float


def one_by_one(engine: Engine, job_id: int, items: Sequence[Settled]) -> None:
    with pool.single(engine.url.render_as_string(hide_password=False)) as connection:
        for item in items:
            settling.write(connection, job_id, [item])


def in_batches(engine: Engine, job_id: int, items: Sequence[Settled]) -> None:
    settler = Settler(engine, job_id, lambda: LEASE_SECONDS, LEASE_SECONDS)
    for item in items:
        settler.add(item)
    settler.stop()


def cost(running: Server, way: Way) -> Cost:
    with measure.database(running) as url:
        engine = pool.connect(url, size=WORKERS)
        job_id, shares = claimed(engine)
        engine.dispose()
        measure.settle_down(url)
        before = transactions(running, url)
        seconds = finished(engine, job_id, shares, way)
        engine.dispose()
        made = transactions(running, url) - before
        with pool.single(url) as connection:
            counted = connection.execute("SELECT succeeded_items, running_items FROM job").fetchone()
            there = connection.execute("SELECT count(*) FROM job_item WHERE status = 'SUCCEEDED'").fetchone()
        assert counted == (WORKERS * ITEMS_EACH, 0), counted
        assert there == (WORKERS * ITEMS_EACH,), there
        return Cost(made, seconds)


def claimed(engine: Engine) -> tuple[int, list[list[Settled]]]:
    """Make a job all of whose items are claimed. Return its id and what each worker has to settle."""
    with pool.transaction(engine) as connection:
        job = submission.submit(connection, KINDS, submission.Request("no-op", "bench", {})).job
    inputs = ((f"item {number}", {"n": number}) for number in range(WORKERS * ITEMS_EACH))
    persist.add_items(engine, job.job_id, inputs, BatchSizer.within(BatchLimits()))
    with pool.transaction(engine) as connection:
        jobs.seal(connection, job.job_id)
        jobs.start(connection, job.job_key)
    return job.job_id, [share(engine, job.job_id, f"worker {number}") for number in range(WORKERS)]


def share(engine: Engine, job_id: int, owner: str) -> list[Settled]:
    with pool.transaction(engine) as connection:
        taken = leases.claim(connection, job_id, owner=owner, most=ITEMS_EACH, lease_seconds=LEASE_SECONDS)
    assert len(taken) == ITEMS_EACH
    return [
        Settled(lease.item_id, lease.lease_term, Settlement(ItemEvent.SUCCEED, result=lease.input)) for lease in taken
    ]


def finished(engine: Engine, job_id: int, shares: list[list[Settled]], way: Way) -> float:
    """Return the seconds in which the workers settle all items, counted from the moment when all of them set off."""
    off = threading.Barrier(WORKERS + 1)

    def worker(items: list[Settled]) -> None:
        off.wait()
        way(engine, job_id, items)

    threads = [threading.Thread(target=worker, args=[items]) for items in shares]
    for thread in threads:
        thread.start()
    off.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begun


def transactions(running: Server, url: str) -> int:
    """Return how many commits the database has had. This is read from another database, once nobody is connected to
    this one any more."""
    name = pool.parsed(url).database
    deadline = time.monotonic() + 30
    with pool.single(running.url()) as admin:
        while admin.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'", [name]
        ).fetchone():
            assert time.monotonic() < deadline, "a connection to the database stays open"
            time.sleep(0.01)
        row = admin.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = %s", [name]).fetchone()
    assert row is not None
    return int(row[0])


def main() -> None:
    costs: list[list[Cost]] = [[], []]

    def side(number: int, way: Way) -> Callable[[], float]:
        def measured() -> float:
            costs[number].append(cost(running, way))
            return costs[number][-1].seconds

        return measured

    with measure.server() as running:
        measure.in_turns([side(0, in_batches), side(1, one_by_one)], ROUNDS)
    for field, unit in (("transactions", "transactions"), ("seconds", "s")):
        ours, peer = ([float(getattr(each, field)) for each in side] for side in costs)
        measure.show(f"in batches, {field}", ours, unit)
        measure.show(f"one by one, {field}", peer, unit)
        name = "settle-transactions" if field == "transactions" else "settle-time"
        measure.report(name, median(ours), median(peer), unit)


if __name__ == "__main__":
    main()
