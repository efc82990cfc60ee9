"""Jobs for the tests of the engine: a line of a test makes one, claims, settles and ages its items by hand, and counts
them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.intake.persist import Item
from bulk_pipelines.engine.items import leases, settling
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.items.settling import Settled, Written
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Request
from bulk_pipelines.engine.kinds import Handler, Kind, Kinds
from bulk_pipelines.engine.outcomes import Done, Outcome
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.worker import drain, retry
from bulk_pipelines.engine.worker.drain import Drained
from bulk_pipelines.engine.worker.retry import RetryPolicy, Settlement
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.tools import Tools

FAR = 3_600.0


class Row(NamedTuple):
    """An item as it is in the database, except that status and time are those that its lease gives it while it is
    held."""

    item_id: int
    item_key: str
    status: ItemState
    attempt_count: int
    not_found_count: int
    death_count: int
    lease_term: int
    lease_owner: str | None
    lease_until: datetime | None
    due_at: datetime | None
    error_class: str | None
    error_message: str | None
    updated_at: datetime
    input: dict[str, Any]
    normalized: dict[str, Any] | None
    result: dict[str, Any] | None
    checkpoint: dict[str, Any] | None


OF_A_LEASE = {"status": "item.state", "updated_at": "coalesce(leased_at, updated_at)"}
READ = f"SELECT {', '.join(OF_A_LEASE.get(field, field) for field in Row._fields)} FROM job_item AS item"


def done(lease: Lease, tools: Tools) -> Outcome:
    return Done({"term": lease.lease_term})


def kind(handle: Handler = done, **settings: Any) -> Kind:
    return Kind("work", handle, **settings)


def only(each: Kind) -> Kinds:
    return Kinds([each])


WORK = only(kind())


def keys(count: int) -> list[str]:
    return [f"k{number:04}" for number in range(count)]


def inputs(count: int) -> list[Item]:
    return [(key, {"n": number}) for number, key in enumerate(keys(count))]


def submitted(
    pool: Engine, items: int | Iterable[Item] = 0, *, kinds: Kinds = WORK, owner: str = "me", kind: str = "work"
) -> Job:
    """Submit a job that nobody has started, with some items. It is not sealed, so it may get more items."""
    with transaction(pool) as connection:
        job = submission.submit(connection, kinds, Request(kind, owner, {})).job
    given = inputs(items) if isinstance(items, int) else items
    persist.add_items(pool, job.job_id, given, BatchSizer.within(BatchLimits(start_rows=1_000)))
    return found(pool, job)


def running(
    pool: Engine, items: int | Iterable[Item] = 0, *, kinds: Kinds = WORK, owner: str = "me", kind: str = "work"
) -> Job:
    """Submit a job with these items, seal it and start it."""
    job = submitted(pool, items, kinds=kinds, owner=owner, kind=kind)
    with transaction(pool) as connection:
        jobs.seal(connection, job.job_id)
        return jobs.start(connection, job.job_key)


def found(pool: Engine, job: Job) -> Job:
    return of_key(pool, job.job_key)


def of_key(pool: Engine, job_key: str) -> Job:
    with transaction(pool) as connection:
        return jobs.find(connection, job_key)


def rows(pool: Engine, job: Job) -> dict[str, Row]:
    with transaction(pool) as connection:
        return rows_of(connection, job.job_id)


def rows_of(connection: psycopg.Connection[Any], job_id: int) -> dict[str, Row]:
    cursor = connection.execute(f"{READ} WHERE job_id = %s ORDER BY item_id", [job_id])
    return {row.item_key: row for row in map(Row._make, cursor)}


def row(pool: Engine, lease: Lease) -> Row:
    with transaction(pool) as connection:
        found = connection.execute(f"{READ} WHERE item_id = %s", [lease.item_id]).fetchone()
    assert found is not None
    return Row._make(found)


def statuses(pool: Engine, job: Job) -> dict[str, str]:
    return {key: each.status for key, each in rows(pool, job).items()}


def claimed(pool: Engine, job: Job, most: int = 1_000, *, owner: str = "me", seconds: float = FAR) -> list[Lease]:
    with transaction(pool) as connection:
        return leases.claim(connection, job.job_id, owner=owner, most=most, lease_seconds=seconds)


def decided(
    lease: Lease, outcome: Outcome, policy: RetryPolicy | None = None, *, delay: float | None = None
) -> Settled:
    """Return what a worker would write for this outcome. `delay` replaces the delay that the policy gives."""
    settlement = retry.decide(policy or RetryPolicy(), outcome, lease.tries, lambda: 0.5)
    if delay is not None and settlement.delay is not None:
        settlement = settlement._replace(delay=delay)
    return Settled(lease.item_id, lease.lease_term, settlement)


def settled(pool: Engine, job: Job, given: Iterable[Lease], outcome: Outcome, *, delay: float | None = None) -> Written:
    with transaction(pool) as connection:
        return settling.write(connection, job.job_id, [decided(lease, outcome, delay=delay) for lease in given])


def written(pool: Engine, job: Job, lease: Lease, settlement: Settlement) -> Written:
    with transaction(pool) as connection:
        return settling.write(connection, job.job_id, [Settled(lease.item_id, lease.lease_term, settlement)])


def expire(pool: Engine, given: Sequence[Lease]) -> None:
    """Let these leases run out, as if their workers had been silent for too long."""
    with transaction(pool) as connection:
        run_out(connection, [lease.item_id for lease in given])


def run_out(connection: psycopg.Connection[Any], item_ids: Sequence[int]) -> None:
    connection.execute(
        "UPDATE job_item SET lease_until = now() - interval '1 second'"
        " WHERE item_id = ANY (%s) AND lease_until IS NOT NULL",
        [list(item_ids)],
    )
    connection.execute(
        "UPDATE claim SET look_at = least(look_at, now() - interval '1 second') WHERE item_ids && %s::bigint[]",
        [list(item_ids)],
    )


ALL_RUN_OUT = """
UPDATE job_item SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL;
UPDATE claim SET look_at = least(look_at, now() - interval '1 second')
"""


HELD_AND_NOT_FOUND = """
SELECT item_key FROM job_item AS item LEFT JOIN claim USING (claim_id, job_id)
WHERE item.lease_until IS NOT NULL
    AND (item.item_id = ANY (claim.item_ids) AND claim.owner = item.lease_owner AND claim.look_at <= item.lease_until)
        IS NOT TRUE
"""
"""A query for the items that are held and that a rescue would not find in time."""


def claims(pool: Engine, job: Job) -> list[tuple[str, bool]]:
    """Return, for each claim of the job, whose it is and whether a rescue has to look at it."""
    with transaction(pool) as connection:
        query = "SELECT owner, look_at < now() FROM claim WHERE job_id = %s ORDER BY claim_id"
        return connection.execute(query, [job.job_id]).fetchall()


def make_due(pool: Engine, job: Job) -> None:
    """Make all waiting retries of the job due, as if their time had come."""
    with transaction(pool) as connection:
        connection.execute(
            "UPDATE job_item SET due_at = now() - interval '1 second' WHERE job_id = %s AND status = 'RETRY_WAIT'",
            [job.job_id],
        )


def waiting_for_locks(pool: Engine) -> int:
    """Return how many sessions of this database wait for a lock that another session holds."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with transaction(pool) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


RECOUNT = "SELECT item.state, count(*) FROM job_item AS item WHERE job_id = %s GROUP BY item.state"


def check_counters(pool: Engine, job: Job) -> None:
    """Check that the job's counters agree with its items."""
    with transaction(pool) as connection:
        kept = jobs.find(connection, job.job_key)
        counted = dict(connection.execute(RECOUNT, [job.job_id]).fetchall())
    assert {state: getattr(kept, f"{state.lower()}_items") for state in ItemState} == {
        state: counted.get(state, 0) for state in ItemState
    }
    assert kept.total_items == sum(counted.values())


def count(pool: Engine, job: Job, state: ItemState) -> int:
    """Return how many items of the job are in the state."""
    return list(statuses(pool, job).values()).count(state)


def drained(
    pool: Engine, job: Job, kinds: Kinds = WORK, *, seconds: float | None = None, patient: bool = True
) -> Drained:
    with Worker(pool, kinds, job) as worker:
        return drain.drain(worker, seconds=seconds, patient=patient)
