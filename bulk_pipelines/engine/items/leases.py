"""Leases: a lease is the right to work an item, named by its term. A worker with an older term can write nothing."""

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
    """An item as it was when a worker claimed it."""

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
    """The transaction of the claim must not commit: the job was paused, cancelled or ended meanwhile, or the items are
    not to be worked now."""


def claim(
    connection: Connection, job_id: int, *, owner: str, most: int, lease_seconds: float, over: Sequence[int] = ()
) -> list[Lease]:
    """Claim up to `most` items for `owner`, who alone may work them until the lease runs out.

    `over` names earlier claims that hold nothing any more; their rows are deleted. Raises ClaimUndone when the job may
    not be worked any more: the error must leave the transaction, so that it is rolled back."""
    values = {"job_id": job_id, "owner": owner, "most": most, "lease_seconds": lease_seconds, "over": list(over)}
    with connection.cursor() as cursor:
        cursor.execute(queries.text("items", "claim_items"), values)
        rows = sorted(cursor.fetchall(), key=itemgetter(0))  # by the item's id; PostgreSQL returns them in any order
    if rows and rows[0][-1] is None:
        raise ClaimUndone
    # All inputs are parsed in one call: a call for each would cost more than the parsing.
    inputs = json.loads("[" + ",".join(row[6] for row in rows) + "]")
    return [
        Lease._make((*row[:6], given, decoded(row[7]), decoded(row[8]), row[9]))
        for row, given in zip(rows, inputs, strict=True)
    ]


def decoded(text: str | None) -> dict[str, Any] | None:
    value: dict[str, Any] | None = None if text is None else json.loads(text)
    return value


def renew(connection: Connection, leases: Sequence[Lease], lease_seconds: float) -> set[int]:
    """Make the leases longer, and return the ids of the items that are still held."""
    with connection.cursor() as cursor:
        cursor.execute(queries.text("items", "renew_leases"), {**terms(leases), "lease_seconds": lease_seconds})
        return {row[0] for row in cursor.fetchall()}


def hold(connection: Connection, lease: Lease) -> None:
    """Lock the item, so that nobody can take it until the transaction ends. Every transaction that writes an item's
    data begins with this. Raises LeaseLost."""
    values = {"item_id": lease.item_id, "lease_term": lease.lease_term}
    if connection.execute(queries.text("items", "hold_item"), values).fetchone() is None:
        raise LeaseLost(lease.item_id, lease.lease_term)


def checkpoint(connection: Connection, lease: Lease, progress: dict[str, Any], lease_seconds: float) -> None:
    """Write how far the item has come, in the transaction that writes its data. The lease and the item's tries begin
    anew. Raises LeaseLost."""
    values = {
        "item_id": lease.item_id,
        "lease_term": lease.lease_term,
        "checkpoint": payload.encode("checkpoint", progress),
        "lease_seconds": lease_seconds,
    }
    if connection.execute(queries.text("items", "checkpoint_item"), values).fetchone() is None:
        raise LeaseLost(lease.item_id, lease.lease_term)


def tries(connection: Connection, lease: Lease) -> Tries:
    """Return the tries that the item has behind it now, which a checkpoint may have reset since the claim."""
    values = {"item_id": lease.item_id, "lease_term": lease.lease_term}
    row = connection.execute(queries.text("items", "tries_of_item"), values).fetchone()
    return lease.tries if row is None else Tries(*row)


def terms(leases: Sequence[Lease]) -> dict[str, list[int]]:
    """Return the parameters that name these leases, in the order of the items' ids: statements that lock many rows in
    one order never wait for each other in a circle."""
    ordered = sorted(leases, key=lambda lease: lease.item_id)
    return {
        "item_ids": [lease.item_id for lease in ordered],
        "lease_terms": [lease.lease_term for lease in ordered],
    }


def seconds_to_next(connection: Connection, job_id: int) -> float | None:
    """Return the seconds until something can be done for a job: until a retry is due or a lease runs out. None means
    that nothing is waiting."""
    row = connection.execute(queries.text("items", "next_moment"), {"job_id": job_id}).fetchone()
    return None if row is None else row[0]
