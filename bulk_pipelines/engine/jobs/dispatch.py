"""Which jobs want a run, and which have one. This is the outbox that the relay empties; it does not know what a run
is."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import psycopg
from psycopg.rows import class_row
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Unavailable

BEAT_SECONDS = 15.0
OFFER_AGAIN_SECONDS = 30.0
PUT_OFF_SECONDS = 3.0
SILENT_SECONDS = 120.0
"""A worker beats every 15 seconds; a job without a beat for this long is looked into."""
BEATS_BEFORE_SILENCE = 8
"""How many beats must be missed at least before a job counts as silent: workers beat more often for a shorter silence.
"""
BATCH = 1_000


@dataclass(frozen=True)
class DispatchLimits:
    """How many jobs may be at work, or offered for a launch, at once."""

    of_kind: int = 10
    of_owner: int = 10
    in_one_pass: int = 50


class Offer(NamedTuple):
    """A launch that the relay is to ask for. Offering it twice must lead to one run, which is recognised by `key`."""

    job_key: str
    kind: str
    dispatch_count: int
    priority: int

    @property
    def key(self) -> str:
        return f"{self.job_key}:{self.dispatch_count}"


@dataclass(frozen=True)
class Launched:
    """A job that should be at work, and for which nobody has beaten for a while."""

    job_id: int
    job_key: str
    kind: str
    status: JobState
    dagster_run_id: str | None
    run_wanted: bool
    vain_launches: int
    """How many launches in a row, before this one, came to nothing."""


def offers(connection: Connection, kinds: Sequence[str], limits: DispatchLimits) -> list[Offer]:
    """Return the launches to ask for now, and note that they were offered. One pass runs at a time, so that two relays
    never fill the same room."""
    connection.execute(queries.text("dispatch", "one_at_a_time"))
    rooms = Rooms.left(connection, limits)
    chosen = choose(repeated(connection, kinds), wanting(connection, kinds, rooms), rooms)
    if not chosen:
        return []
    values = {"job_ids": [each.job_id for each in chosen]}
    marked = {row[0] for row in connection.execute(queries.text("dispatch", "mark_offered"), values)}
    return [each.offer for each in chosen if each.job_id in marked]


class Candidate(NamedTuple):
    """A job that could be launched."""

    offer: Offer
    owner: str
    job_id: int


class Rooms:
    """How many more jobs may be launched, of each kind and of each owner."""

    def __init__(self, limits: DispatchLimits, launched: Iterable[tuple[str, str, int]]) -> None:
        self.limits = limits
        self.kinds: Counter[str] = Counter()
        self.owners: Counter[str] = Counter()
        for kind, owner, count in launched:
            self.kinds[kind] += count
            self.owners[owner] += count

    @classmethod
    def left(cls, connection: Connection, limits: DispatchLimits) -> Self:
        return cls(limits, connection.execute(queries.text("dispatch", "launched_by_kind")))

    def of_kind(self, kind: str) -> int:
        return max(0, self.limits.of_kind - self.kinds[kind])

    def of_owner(self, owner: str) -> int:
        return max(0, self.limits.of_owner - self.owners[owner])

    def take(self, kind: str, owner: str) -> bool:
        if not self.of_kind(kind) or not self.of_owner(owner):
            return False
        self.kinds[kind] += 1
        self.owners[owner] += 1
        return True


def repeated(connection: Connection, kinds: Sequence[str]) -> list[Candidate]:
    """Return the jobs that were offered some time ago and have no run yet: they are offered again."""
    values = {"kinds": list(kinds), "again_after": OFFER_AGAIN_SECONDS}
    return candidates(connection, "repeated_offers", values)


def wanting(connection: Connection, kinds: Sequence[str], rooms: Rooms) -> list[Candidate]:
    """Return the jobs that want a run and have room. Jobs of full kinds and owners are not even read."""
    opened = [kind for kind in kinds if rooms.of_kind(kind)]
    if not opened:
        return []
    values = {
        "kinds": opened,
        "rooms": [rooms.of_kind(kind) for kind in opened],
        "owners": list(rooms.owners),
        "left": [rooms.of_owner(owner) for owner in rooms.owners],
        "of_owner": rooms.limits.of_owner,
        "in_one_pass": rooms.limits.in_one_pass,
    }
    return candidates(connection, "wanting_jobs", values)


def candidates(connection: Connection, query: str, values: dict[str, Any]) -> list[Candidate]:
    rows = connection.execute(queries.text("dispatch", query), values)
    return [Candidate(Offer(*row[:4]), row[4], row[5]) for row in rows]


def choose(repeated: Sequence[Candidate], wanting: Sequence[Candidate], rooms: Rooms) -> list[Candidate]:
    """Choose the most urgent jobs, as far as there is room. A job that is offered again has its room already."""
    again = {each.job_id for each in repeated}
    chosen: list[Candidate] = []
    for each in sorted([*repeated, *wanting], key=lambda one: (-one.offer.priority, one.job_id)):
        if len(chosen) == rooms.limits.in_one_pass:
            break
        if each.job_id in again or rooms.take(each.offer.kind, each.owner):
            chosen.append(each)
    return chosen


def put_off(connection: Connection, job_keys: Sequence[str]) -> None:
    """Offer these jobs again soon, because they cannot be launched yet. They keep their places in the limits."""
    values = {"job_keys": list(job_keys), "seconds": OFFER_AGAIN_SECONDS - PUT_OFF_SECONDS}
    connection.execute(queries.text("dispatch", "put_off"), values)


def taken(connection: Connection, job_id: int) -> bool:
    """Take the launch of a job for the caller. True when the caller is to work the job now: then the relay leaves it
    alone, and nobody else works it."""
    values = {"job_id": job_id, "again_after": OFFER_AGAIN_SECONDS, "silent_seconds": SILENT_SECONDS}
    return connection.execute(queries.text("dispatch", "take_launch"), values).fetchone() is not None


def begun(connection: Connection, job_id: int, dagster_run_id: str | None = None) -> None:
    """Note that a run has begun to work the job."""
    connection.execute(queries.text("dispatch", "run_has_begun"), {"job_id": job_id, "dagster_run_id": dagster_run_id})


def want(connection: Connection, job_id: int, *, in_vain: bool = False) -> None:
    """Note that the job wants a run. `in_vain` says that it wants one because its last launch came to nothing."""
    connection.execute(queries.text("dispatch", "want_run"), {"job_id": job_id, "in_vain": in_vain})


def hand_over(connection: Connection, job_id: int, dagster_run_id: str) -> bool:
    """Ask for another run that goes on with the job where this one ends. False when one has taken the job up
    already."""
    values = {"job_id": job_id, "dagster_run_id": dagster_run_id}
    return connection.execute(queries.text("dispatch", "hand_over"), values).fetchone() is not None


def silent(connection: Connection, seconds: float) -> list[Launched]:
    """Return the jobs that should be at work, and for which nobody has beaten for so many seconds."""
    with connection.cursor(row_factory=class_row(Launched)) as cursor:
        cursor.execute(queries.text("dispatch", "launched_jobs"), {"silent_seconds": seconds, "most": BATCH})
        return cursor.fetchall()


@contextmanager
def beating(pool: Engine, job_id: int, silent_seconds: float = SILENT_SECONDS) -> Iterator[None]:
    """Beat for the job, which says that somebody works it, as long as the block lasts and the process lives.
    `silent_seconds` is the silence after which somebody looks into the job."""
    over = threading.Event()
    interval = min(BEAT_SECONDS, silent_seconds / BEATS_BEFORE_SILENCE)

    def beat() -> None:
        while not over.wait(interval):
            try:
                with transaction(pool) as connection:
                    connection.execute(queries.text("dispatch", "beat"), {"job_id": job_id})
            except (Unavailable, psycopg.OperationalError):
                continue  # the next beat makes up for one that is missed

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
