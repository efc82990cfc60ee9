"""The states of jobs, as whoever watches them is told. One query reads them, however many are watched."""

import hashlib
import json
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from psycopg.rows import dict_row
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.words import WORDS

MOST_OPEN = 1_000
"""How many open jobs a listener that watches all is told of, at most: the newest ones."""
LAST_ERRORS = 3
SMOOTH = 0.5
"""The share of a new measurement in the pace."""
SLOWEST = 0.1
REMEMBERED = 60
"""How many of the last paces of a job are kept."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Watched:
    """Which jobs are watched."""

    keys: Collection[str] = ()
    owners: Collection[str] = ()
    everyone: bool = False
    shown: Collection[str] = ()
    """The keys of the jobs that pages of the console show. More is read of these."""


@dataclass(frozen=True, slots=True)
class State:
    """How a job is. All who are told of it share the object."""

    job_key: str
    kind: str
    owner: str
    over: bool
    digest: str
    """The same for the same state in every process, so that a listener can go on at another one."""
    data: str
    row: Row = field(default_factory=dict)
    """What was read of the job; empty if it is gone."""
    paces: tuple[float, ...] = ()
    """How quick the job was at the last looks, the latest one last."""


def look(pool: Engine, watched: Watched) -> tuple[datetime, list[Row]]:
    """Read how the jobs are; return the database's time as well."""
    values = {
        "keys": list(watched.keys),
        "owners": list(watched.owners),
        "everyone": watched.everyone,
        "shown": list(watched.shown),
        "most": MOST_OPEN,
        "errors": LAST_ERRORS,
    }
    with transaction(pool) as connection, connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(queries.text("live", "look"), values).fetchall()
        return rows[0]["looked_at"] if rows else datetime.now(UTC), rows


class Paces:
    """How quickly jobs get on, measured between the looks of this process."""

    def __init__(self) -> None:
        self.measured: dict[str, tuple[datetime, int, float]] = {}
        self.past: dict[str, deque[float]] = {}

    def pace(self, row: Row, now: datetime) -> float:
        """Return rows a second, or items a second if the job has no rows. At the first look this is the average since
        the job's start."""
        key, done = row["job_key"], done_of(row)
        before = self.measured.get(key)
        if before is None:
            begun = row["started_at"]
            seconds = ((row["finished_at"] or now) - begun).total_seconds() if begun else 0.0
            pace = done / seconds if seconds > 0 else 0.0
        else:
            since, earlier, pace = before
            seconds = (now - since).total_seconds()
            if seconds > 0:
                pace += SMOOTH * ((done - earlier) / seconds - pace)
        pace = 0.0 if pace < SLOWEST else pace
        self.measured[key] = (now, done, pace)
        self.past.setdefault(key, deque(maxlen=REMEMBERED)).append(pace)
        return pace

    def keep(self, keys: Collection[str]) -> None:
        """Forget all jobs but these."""
        self.measured = {key: self.measured[key] for key in keys if key in self.measured}
        self.past = {key: self.past[key] for key in self.measured}


def done_of(row: Row) -> int:
    if row["rows"] is not None:
        return int(row["rows"])
    return int(row["total_items"]) - sum(int(row[f"{name}_items"]) for name in ("pending", "running", "retry_wait"))


def state_of(row: Row, pace: float, paces: Collection[float] = ()) -> State:
    """Return the state that a row tells. Another pace alone is no news, but it is news when the job comes to a halt."""
    job, over = JobState(row["status"]), row["finished_at"] is not None
    told = {
        "job_id": row["job_key"],
        "kind": row["kind"],
        "status": WORDS[job],
        "state": job.value,
        "paused": job is JobState.PAUSED,
        "over": over,
        "items": {name.removesuffix("_items"): row[name] for name in row if name.endswith("_items")},
        "rows": row["rows"],
        "rejected_rows": row["rejected"],
        "errors": row["errors"],
        "last_error": row["last_error"],
        "created_at": row["created_at"],
        "started_at": row["started_at"],
        "completed_at": row["finished_at"],
    }
    text = encoded(told)
    digest = hashlib.blake2b(f"{text}{pace > 0 and not over}".encode(), digest_size=12).hexdigest()
    data = encoded({**told, "per_second": round(pace, 1)})
    return State(row["job_key"], row["kind"], row["owner"], over, digest, data, row, tuple(paces))


def gone(job_key: str) -> State:
    """Return the state of a job that retention has removed."""
    return State(job_key, "", "", over=True, digest="gone", data=encoded({"job_id": job_key, "over": True}))


def encoded(value: dict[str, Any]) -> str:
    return json.dumps(value, default=datetime.isoformat, ensure_ascii=False, separators=(",", ":"))
