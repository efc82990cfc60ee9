"""Leases: the right to work an item, named by its term. Whoever holds an older term writes nothing."""

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.errors import LeaseLost
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.worker.retry import Tries


class Lease(NamedTuple):
    """An item as it was claimed."""

    item_id: int
    item_key: str
    lease_term: int
    attempt_count: int
    not_found_count: int
    death_count: int
    input: dict[str, Any]
    normalized: dict[str, Any] | None
    checkpoint: dict[str, Any] | None
    claim_id: int

    @property
    def tries(self) -> Tries:
        return Tries(self.attempt_count, self.not_found_count, self.death_count)


class ClaimUndone(Exception):
    """The job was paused, cancelled or ended while its items were being claimed: the transaction must not commit."""


def claim(
    connection: Connection, job_id: int, *, owner: str, most: int, lease_seconds: float, over: Sequence[int] = ()
) -> list[Lease]:
    """Up to `most` items, theirs alone until the lease runs out. Raises ClaimUndone inside the transaction to undo.

    `over`: earlier claims of which nothing is held any more."""
    values = {"job_id": job_id, "owner": owner, "most": most, "lease_seconds": lease_seconds, "over": list(over)}
    with connection.cursor() as cursor:
        cursor.execute(queries.text("items", "claim_items"), values)
        rows = sorted(cursor.fetchall(), key=itemgetter(0))  # by the item's id: they come as their rows happen to lie
    if rows and rows[0][-1] is None:
        raise ClaimUndone
    # Read all at once: a call for each costs more than the reading.
    inputs = json.loads("[" + ",".join(row[6] for row in rows) + "]")
    return [
        Lease._make((*row[:6], given, decoded(row[7]), decoded(row[8]), row[9]))
        for row, given in zip(rows, inputs, strict=True)
    ]


def decoded(text: str | None) -> dict[str, Any] | None:
    value: dict[str, Any] | None = None if text is None else json.loads(text)
    return value


def renew(connection: Connection, leases: Sequence[Lease], lease_seconds: float) -> set[int]:
    """Longer leases; returns the ids of the items that are still held."""
    with connection.cursor() as cursor:
        cursor.execute(queries.text("items", "renew_leases"), {**terms(leases), "lease_seconds": lease_seconds})
        return {row[0] for row in cursor.fetchall()}


def hold(connection: Connection, lease: Lease) -> None:
    """Begin a transaction of data with this: until it ends nobody can take the item. Raises LeaseLost."""
    values = {"item_id": lease.item_id, "lease_term": lease.lease_term}
    if connection.execute(queries.text("items", "hold_item"), values).fetchone() is None:
        raise LeaseLost(lease.item_id, lease.lease_term)


def checkpoint(connection: Connection, lease: Lease, progress: dict[str, Any], lease_seconds: float) -> None:
    """How far the item has come, in the transaction of its data. Raises LeaseLost."""
    values = {
        "item_id": lease.item_id,
        "lease_term": lease.lease_term,
        "checkpoint": payload.encode("checkpoint", progress),
        "lease_seconds": lease_seconds,
    }
    if connection.execute(queries.text("items", "checkpoint_item"), values).fetchone() is None:
        raise LeaseLost(lease.item_id, lease.lease_term)


def tries(connection: Connection, lease: Lease) -> Tries:
    """What the item has behind it now: a checkpoint begins it anew."""
    values = {"item_id": lease.item_id, "lease_term": lease.lease_term}
    row = connection.execute(queries.text("items", "tries_of_item"), values).fetchone()
    return lease.tries if row is None else Tries(*row)


def terms(leases: Sequence[Lease]) -> dict[str, list[int]]:
    """In the order of ids: statements that lock many rows then never wait for each other in a circle."""
    ordered = sorted(leases, key=lambda lease: lease.item_id)
    return {
        "item_ids": [lease.item_id for lease in ordered],
        "lease_terms": [lease.lease_term for lease in ordered],
    }


def seconds_to_next(connection: Connection, job_id: int) -> float | None:
    """Until something can next be done for a job: a retry falls due, a lease runs out. None: nothing is waiting."""
    row = connection.execute(queries.text("items", "next_moment"), {"job_id": job_id}).fetchone()
    return None if row is None else row[0]
