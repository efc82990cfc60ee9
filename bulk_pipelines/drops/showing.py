"""The ledger of dropped files as people see it."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from psycopg.rows import class_row

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.drops.ledger import text


class Listed(NamedTuple):
    """An entry of the ledger as people see it. `at` is when it came to its state."""

    source: str
    path: str
    size: int
    resource: str | None
    """The resource that the file's rule names; None if no rule is for the file."""
    status: str
    job_key: str | None
    note: str | None
    at: datetime


@dataclass(frozen=True)
class LedgerEntry:
    """An entry of the ledger, with its number: pages go by that."""

    drop_id: int
    source: str
    path: str
    size: int
    resource: str
    status: str
    job_key: str | None
    note: str | None
    at: datetime


@dataclass(frozen=True)
class LastLook:
    """How a source has been answering."""

    source: str
    failures: int
    retry_at: datetime | None
    last_error: str | None
    looked_at: datetime | None


def entries(
    connection: Connection, source: str | None, status: str | None, size: int, before_id: int | None
) -> list[LedgerEntry]:
    """Return a page of the ledger, the newest entries first."""
    values = {"source": source, "status": status, "size": size, "before_id": before_id}
    with connection.cursor(row_factory=class_row(LedgerEntry)) as cursor:
        return cursor.execute(text("ledger_page"), values).fetchall()


def last_looks(connection: Connection) -> dict[str, LastLook]:
    with connection.cursor(row_factory=class_row(LastLook)) as cursor:
        return {each.source: each for each in cursor.execute(text("looks_at_sources"))}


def page(connection: Connection, source: str | None, status: str | None, most: int) -> list[Listed]:
    """Return the newest entries of the ledger, of one source or status if these are given."""
    values = {"source": source, "status": status, "most": most}
    return [Listed._make(row) for row in connection.execute(text("list_drops"), values).fetchall()]
