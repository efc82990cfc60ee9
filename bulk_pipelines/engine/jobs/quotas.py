"""How much one owner may have open, and how much an owner may send within a day. Whoever submits for an owner from
outside asks here first, in the transaction that submits."""

from dataclasses import dataclass

import psycopg

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import OverQuota

SECONDS_TO_WAIT = 30.0
"""How many seconds somebody whose quota is full is asked to wait: nobody knows when a job ends."""
DAY = 86_400
PATIENT_SECONDS = 3
"""The longest time that a submission waits for another one of its owner."""


@dataclass(frozen=True)
class Quota:
    jobs: int
    """How many unfinished jobs an owner may have."""
    items: int
    """How many open items an owner may have in them."""
    bytes: int
    """How many bytes an owner may send within a day."""


@dataclass(frozen=True)
class Left:
    """How much more an owner may have."""

    jobs: int
    items: int
    bytes: int


def admit(connection: Connection, owner: str, quota: Quota, *, items: int = 1, sent: int = 0) -> Left:
    """Let the owner have one more job, with so many items and sent with so many bytes, or raise `OverQuota`. Until the
    transaction ends, no other submission of the owner is admitted."""
    one_at_a_time(connection, owner)
    left = left_of(connection, owner, quota)
    if left.jobs < 1:
        raise OverQuota(f"{owner} has {quota.jobs} unfinished jobs, and may have no more", SECONDS_TO_WAIT)
    if left.items < items:
        raise OverQuota(
            f"{owner} may have {left.items} more open items of {quota.items} now, and asks for {items}", SECONDS_TO_WAIT
        )
    if sent:
        count(connection, owner, quota, sent)
    return Left(left.jobs - 1, left.items - items, left.bytes - sent)


def count(connection: Connection, owner: str, quota: Quota, sent: int) -> None:
    """Count bytes that the owner has sent, or raise `OverQuota` if they are too many. Until the transaction ends,
    nothing else of the owner is counted."""
    one_at_a_time(connection, owner)
    refuse_bytes(connection, owner, quota, sent)
    connection.execute(queries.text("quotas", "add_bytes"), {"owner": owner, "bytes": sent})


def one_at_a_time(connection: Connection, owner: str) -> None:
    """Let nobody else count what the owner has until the transaction ends. Raise `OverQuota` if another submission of
    the owner takes too long."""
    connection.execute(queries.text("quotas", "wait_shortly"), {"milliseconds": PATIENT_SECONDS * 1_000})
    try:
        connection.execute(queries.text("quotas", "one_at_a_time"), {"owner": owner})
    except psycopg.errors.LockNotAvailable:
        raise OverQuota(f"{owner} submits more at once than can be counted", PATIENT_SECONDS) from None


def left_of(connection: Connection, owner: str, quota: Quota) -> Left:
    row = connection.execute(queries.text("quotas", "open_of_owner"), {"owner": owner}).fetchone()
    assert row is not None
    known, items = row
    return Left(max(0, quota.jobs - known), max(0, quota.items - items), bytes_left(connection, owner, quota)[0])


def bytes_left(connection: Connection, owner: str, quota: Quota) -> tuple[int, float]:
    """Return how many bytes the owner may still send, and in how many seconds it will be more."""
    row = connection.execute(queries.text("quotas", "bytes_of_owner"), {"owner": owner}).fetchone()
    assert row is not None
    return max(0, quota.bytes - int(row[0])), float(row[1])


def refuse_bytes(connection: Connection, owner: str, quota: Quota, sent: int) -> None:
    """Raise `OverQuota` if the owner may not send so many bytes."""
    left, seconds = bytes_left(connection, owner, quota)
    if sent > left:
        raise OverQuota(
            f"{owner} may send {left:,} more of {quota.bytes:,} bytes within a day, and sends {sent:,}",
            max(seconds, SECONDS_TO_WAIT),
        )
