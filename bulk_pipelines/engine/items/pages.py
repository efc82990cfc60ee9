"""Pages of items in the order of `(updated_at, item_id)`: every page costs the same, and no row is missed.

An item's updated_at only grows, so a row that changes while somebody reads the pages moves to a later page, and is
shown there again. A row that has not been shown yet cannot slip behind the reader: its old place is ahead of the
reader, and its new place is later still.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.items.cursors import START, Position, cursor_secret, decode, encode, opened, signed
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import OPEN_ITEMS, ItemState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.telemetry import events

MOST = 1_000
NEVER = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True)
class ItemRow:
    """An item as a page shows it."""

    item_id: int
    job_key: str
    item_key: str
    owner: str
    kind: str
    status: str
    attempt_count: int
    lease_owner: str | None
    """Who works the item now."""
    leased_at: datetime | None
    lease_until: datetime | None
    due_at: datetime | None
    error_class: str | None
    error_message: str | None
    updated_at: datetime
    input_summary: str | None
    title: str | None
    """What the input has under this name, shortened; the same with `brand` and `sku`."""
    brand: str | None
    sku: str | None


@dataclass(frozen=True)
class Page:
    items: list[ItemRow]
    after: str | None
    """The cursor of the next page; None when this page was not full, and so was the last."""


@dataclass(frozen=True)
class Wanted:
    """Which items are meant, of all jobs; a field that is None does not matter."""

    owner: str | None = None
    kind: str | None = None
    since: datetime | None = None
    """Only items that have changed since this time."""
    until: datetime | None = None
    """Only items that have not changed since this time."""


def of_job(
    connection: Connection,
    job_key: str,
    *,
    statuses: Iterable[str] = OPEN_ITEMS,
    size: int = 100,
    after: str | None = None,
    owner: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Page:
    """Return a page of a job's items. If `owner` is given, another owner's job is an unknown one."""
    job = jobs.find(connection, job_key, owner)
    wanted = Wanted(since=since, until=until)
    return read(connection, "page_of_job", f"job:{job_key}", {"job_id": job.job_id}, wanted, statuses, size, after)


def of_all(
    connection: Connection,
    wanted: Wanted,
    *,
    statuses: Iterable[str] = OPEN_ITEMS,
    size: int = 100,
    after: str | None = None,
) -> Page:
    """Return a page of the items of all jobs."""
    owner = None if wanted.owner is None else payload.text("owner", wanted.owner)
    kind = None if wanted.kind is None else payload.text("kind", wanted.kind)
    scope = f"items:{owner!r}:{kind!r}"
    return read(connection, "page_of_items", scope, {"owner": owner, "kind": kind}, wanted, statuses, size, after)


def in_order(
    connection: Connection, job_key: str, *, size: int = 100, after: str | None = None, owner: str | None = None
) -> Page:
    """Return a page of a job's items in the order of their keys, which is that of the source: items in all states."""
    job = jobs.find(connection, job_key, owner)
    limit = payload.size("size", size, MOST)
    secret, scope = cursor_secret(connection), f"order:{job_key}"
    last = "" if after is None else str(opened(secret, scope, after)[0])
    rows = rows_of(connection, "page_in_order", {"job_id": job.job_id, "after_key": last, "size": limit})
    return Page(rows, signed(secret, scope, [rows[-1].item_key]) if len(rows) == limit else None)


def read(
    connection: Connection,
    query: str,
    scope: str,
    values: dict[str, Any],
    wanted: Wanted,
    statuses: Iterable[str],
    size: int,
    after: str | None,
) -> Page:
    states = checked_statuses(statuses)
    limit = payload.size("size", size, MOST)
    secret = cursor_secret(connection)
    since, until = checked_moment("from", wanted.since), checked_moment("to", wanted.until)
    scope = f"{scope}:{','.join(states)}" + (f":{since}:{until}" if since or until else "")
    begin = START if since is None else Position(since, 0)
    position = begin if after is None else decode(secret, scope, after)
    values |= {
        "statuses": states,
        "size": limit,
        "after_time": position.updated_at,
        "after_id": position.item_id,
        "until": until or NEVER,
    }
    rows = rows_of(connection, query, values)
    if rows and events.told(logging.DEBUG):
        first, last = (f"{row.updated_at.isoformat()} {row.item_id}" for row in (rows[0], rows[-1]))
        events.debug("page read", rows=len(rows), first=first, last=last)
    full = len(rows) == limit
    return Page(rows, encode(secret, scope, Position(rows[-1].updated_at, rows[-1].item_id)) if full else None)


def rows_of(connection: Connection, query: str, values: dict[str, Any]) -> list[ItemRow]:
    with connection.cursor(row_factory=class_row(ItemRow)) as cursor:
        return cursor.execute(queries.text("pages", query), values).fetchall()


def checked_statuses(statuses: Iterable[str]) -> list[str]:
    """Check the statuses, and return each of them once, sorted: the same choice always gives the same cursor."""
    wanted = sorted({str(status) for status in statuses})
    if not wanted:
        raise InvalidInput("statuses", "is empty: name at least one")
    for status in wanted:
        if status not in ItemState.__members__:
            raise InvalidInput("statuses", f"{status!r} is none of {', '.join(ItemState)}")
    return wanted


def checked_moment(field: str, moment: datetime | None) -> datetime | None:
    """Return the moment in UTC; one without a time zone is UTC already."""
    if moment is None:
        return None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(field, "lies outside of the calendar") from None
