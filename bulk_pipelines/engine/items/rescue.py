"""The rescue of items whose worker did not come back: they are retried, or buried when workers keep dying on them."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.items import settling
from bulk_pipelines.engine.items.settling import Settled
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.states import ItemEvent
from bulk_pipelines.engine.worker.retry import Random, RetryPolicy, Tries, decide_rescue

BATCH = 1_000


class Expired(NamedTuple):
    """An item whose lease ran out. `death_count` includes this death."""

    item_id: int
    job_id: int
    lease_term: int
    lease_owner: str
    kind: str
    attempt_count: int
    not_found_count: int
    death_count: int


@dataclass(frozen=True)
class Rescued:
    """How many items a rescue sent to a retry, and how many it buried."""

    retried: int = 0
    buried: int = 0

    def __add__(self, other: "Rescued") -> "Rescued":
        return Rescued(self.retried + other.retried, self.buried + other.buried)

    @property
    def items(self) -> int:
        return self.retried + self.buried


def run_once(pool: Engine, kinds: Mapping[str, Kind], random: Random, job_id: int | None = None) -> Rescued:
    """Rescue all items whose leases have run out, of all jobs or of one."""
    total = Rescued()
    while (rescued := one_batch(pool, kinds, random, job_id)).items:
        total += rescued
    with transaction(pool) as connection:
        connection.execute(queries.text("items", "look_at_claims"), {"job_id": job_id})
    return total


def is_anything_due(connection: Connection) -> bool:
    """Whether there are claims to look at: their leases may have run out, or nothing is left of them."""
    row = connection.execute(queries.text("items", "is_rescue_due")).fetchone()
    return bool(row and row[0])


def name_unnamed(pool: Engine) -> int:
    """Give held items of jobs without any claim a new claim row, so that the next rescue finds them. Return how many.

    Their rows were lost by a server that forgot what it had confirmed, or were deleted by hand.
    """
    with transaction(pool) as connection:
        return len(connection.execute(queries.text("items", "name_unnamed_leases")).fetchall())


def one_batch(pool: Engine, kinds: Mapping[str, Kind], random: Random, job_id: int | None) -> Rescued:
    with transaction(pool) as connection:
        found = expired(connection, job_id)
        batches = decisions(found, kinds, random)
        # The jobs are written in order, so that two rescues never wait for each other's job rows in a circle.
        for each in sorted(batches):
            settling.write(connection, each, batches[each], rescue=True)
    buried = sum(each.settlement.event is ItemEvent.BURY for batch in batches.values() for each in batch)
    return Rescued(retried=len(found) - buried, buried=buried)


def expired(connection: Connection, job_id: int | None = None) -> list[Expired]:
    with connection.cursor() as cursor:
        cursor.execute(queries.text("items", "expired_leases"), {"job_id": job_id, "most": BATCH})
        return [Expired._make(row) for row in cursor.fetchall()]


def decisions(found: list[Expired], kinds: Mapping[str, Kind], random: Random) -> dict[int, list[Settled]]:
    """Decide what becomes of each item, and group the decisions by job. A kind that this process does not know gets the
    default retry policy."""
    batches: dict[int, list[Settled]] = defaultdict(list)
    for each in found:
        policy = kinds[each.kind].retry if each.kind in kinds else RetryPolicy()
        tries = Tries(each.attempt_count, each.not_found_count, each.death_count)
        settlement = decide_rescue(policy, tries, each.lease_owner, random)
        batches[each.job_id].append(Settled(each.item_id, each.lease_term, settlement))
    return batches
