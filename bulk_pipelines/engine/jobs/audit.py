"""Who did what to which job. An entry is written in the transaction that does it, so neither stands without the
other."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload

MOST = 1_000


@dataclass(frozen=True)
class Actor:
    """Who does something, and through which door. The doors make it; it is passed on to whatever writes."""

    name: str
    origin: str
    address: str | None = None
    """The address that the request came from; None where the door has none."""
    request_id: str | None = None
    admin: bool = True
    """Whether this actor sees the jobs of all owners, and may do something to them. Whoever uses the command line or
    Dagster's UI holds the whole database in their hands anyway."""

    @property
    def sees(self) -> str | None:
        """The only owner whose jobs this actor sees; None if it sees all."""
        return None if self.admin else self.name


UI = Actor("ui", "ui")
"""Whoever sits before Dagster's UI: it knows no logins."""


@dataclass(frozen=True)
class Entry:
    """What somebody did."""

    audit_id: int
    happened_at: datetime
    actor: str
    origin: str
    address: str | None
    request_id: str | None
    action: str
    job_key: str | None
    kind: str | None
    owner: str | None
    details: dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """Which entries are meant; a field that is None does not matter."""

    job_key: str | None = None
    actor: str | None = None
    action: str | None = None
    owner: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def note(connection: Connection, by: Actor | None, action: str, job_id: int, **details: Any) -> None:
    """Write down what an actor does to a job. What the program does of its own accord (`by` is None) is not noted."""
    if by is not None:
        entered(connection, by, action, job_id, details)


def note_other(connection: Connection, by: Actor, action: str, owner: str, **details: Any) -> None:
    """Write down what an actor does that is about an owner and no job."""
    values = who(by) | {"action": action, "owner": owner, "details": encoded(details)}
    connection.execute(queries.text("audit", "note"), values)


class Tally:
    """One entry for work that goes on in several transactions: each of them adds to its count."""

    def __init__(self, by: Actor | None, action: str) -> None:
        self.by = by
        self.action = action
        self.audit_id: int | None = None

    def add(self, connection: Connection, job_id: int, count: int) -> None:
        if self.by is None or not count:
            return
        if self.audit_id is not None:
            values = {"audit_id": self.audit_id, "count": count}
            if connection.execute(queries.text("audit", "count_more"), values).rowcount:
                return  # otherwise the transaction that wrote the entry was rolled back
        self.audit_id = entered(connection, self.by, self.action, job_id, {"count": count})


def entered(connection: Connection, by: Actor, action: str, job_id: int, details: Mapping[str, Any]) -> int | None:
    values = who(by) | {"action": action, "job_id": job_id, "details": encoded(details)}
    row = connection.execute(queries.text("audit", "note_job"), values).fetchone()
    return None if row is None else int(row[0])


def who(by: Actor) -> dict[str, Any]:
    return {
        "actor": payload.text("actor", by.name),
        "origin": by.origin,
        "address": by.address,
        "request_id": by.request_id,
    }


def encoded(details: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in details.items() if value is not None})


def page(
    connection: Connection,
    wanted: Wanted,
    size: int = 100,
    before_id: int | None = None,
    visible_to: str | None = None,
) -> list[Entry]:
    """Return entries, the newest first. `visible_to` is the owner who asks: then others' entries about others' jobs are
    left out."""
    values = asdict(wanted) | {
        "size": payload.size("size", size, MOST),
        "before_id": before_id,
        "visible_to": visible_to,
    }
    with connection.cursor(row_factory=class_row(Entry)) as cursor:
        return cursor.execute(queries.text("audit", "page"), values).fetchall()
