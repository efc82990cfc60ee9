"""Which jobs want a run, and which have one: the outbox that the relay empties. What a run is, is not known here."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Unavailable

Connection = psycopg.Connection[Any]

BEAT_SECONDS = 15.0
OFFER_AGAIN_SECONDS = 30.0
PUT_OFF_SECONDS = 3.0
SILENT_SECONDS = 120.0
"""A worker beats every 15 seconds; a job without a beat for this long is looked into."""
BATCH = 1_000


@dataclass(frozen=True)
class DispatchLimits:
    """How many jobs may be at work, or on their way to it, at once."""

    of_kind: int = 10
    of_owner: int = 10
    in_one_pass: int = 50


class Offer(NamedTuple):
    """A launch. Offering it twice must come to one run: `key` is what to know it by."""

    job_key: str
    kind: str
    dispatch_count: int
    priority: int

    @property
    def key(self) -> str:
        return f"{self.job_key}:{self.dispatch_count}"


@dataclass(frozen=True)
class Launched:
    """A job that should be at work and is silent."""

    job_id: int
    job_key: str
    kind: str
    status: JobState
    dagster_run_id: str | None
    run_wanted: bool
    vain_launches: int
    """Launches in a row, before this one, that came to nothing."""


def offers(connection: Connection, kinds: Sequence[str], limits: DispatchLimits) -> list[Offer]:
    """What is to be launched now. One pass at a time, so that two relays never fill the same room."""
    connection.execute(queries.text("dispatch", "one_at_a_time"))
    values = {
        "kinds": list(kinds),
        "again_after": OFFER_AGAIN_SECONDS,
        "most_of_each": min(limits.of_kind, limits.of_owner),
        "most": BATCH,
    }
    rows = connection.execute(queries.text("dispatch", "wanting_jobs"), values).fetchall()
    wanting = [(Offer(*row[:4]), row[4], row[5]) for row in rows]
    of_kind: Counter[str] = Counter()
    of_owner: Counter[str] = Counter()
    for kind, owner, count in connection.execute(queries.text("dispatch", "active_jobs")):
        of_kind[kind] += count
        of_owner[owner] += count
    chosen = choose(wanting, of_kind, of_owner, limits)
    connection.execute(queries.text("dispatch", "mark_offered"), {"job_keys": [offer.job_key for offer in chosen]})
    return chosen


def put_off(connection: Connection, job_keys: Sequence[str]) -> None:
    """What was offered and cannot be launched yet is offered again soon. It keeps its place in the limits."""
    values = {"job_keys": list(job_keys), "seconds": OFFER_AGAIN_SECONDS - PUT_OFF_SECONDS}
    connection.execute(queries.text("dispatch", "put_off"), values)


def choose(
    wanting: Sequence[tuple[Offer, str, bool]], of_kind: Counter[str], of_owner: Counter[str], limits: DispatchLimits
) -> list[Offer]:
    """In order of urgency, as far as there is room. `wanting` says of each its owner, and whether it has its room."""
    chosen: list[Offer] = []
    of_kind, of_owner = Counter(of_kind), Counter(of_owner)
    for offer, owner, counted in wanting:
        if len(chosen) == limits.in_one_pass:
            break
        if not counted:
            if of_kind[offer.kind] >= limits.of_kind or of_owner[owner] >= limits.of_owner:
                continue
            of_kind[offer.kind] += 1
            of_owner[owner] += 1
        chosen.append(offer)
    return chosen


def taken(connection: Connection, job_id: int) -> bool:
    """Whether the caller is to work the job now: then the relay leaves it alone, and nobody else is at it."""
    values = {"job_id": job_id, "again_after": OFFER_AGAIN_SECONDS, "silent_seconds": SILENT_SECONDS}
    return connection.execute(queries.text("dispatch", "take_launch"), values).fetchone() is not None


def begun(connection: Connection, job_id: int, dagster_run_id: str | None = None) -> None:
    connection.execute(queries.text("dispatch", "run_has_begun"), {"job_id": job_id, "dagster_run_id": dagster_run_id})


def want(connection: Connection, job_id: int, *, in_vain: bool = False) -> None:
    """`in_vain`: because the launch before came to nothing."""
    connection.execute(queries.text("dispatch", "want_run"), {"job_id": job_id, "in_vain": in_vain})


def hand_over(connection: Connection, job_id: int, dagster_run_id: str) -> bool:
    """To a run that goes on where this one ends; False when one does already."""
    values = {"job_id": job_id, "dagster_run_id": dagster_run_id}
    return connection.execute(queries.text("dispatch", "hand_over"), values).fetchone() is not None


def silent(connection: Connection, seconds: float) -> list[Launched]:
    with connection.cursor(row_factory=class_row(Launched)) as cursor:
        cursor.execute(queries.text("dispatch", "launched_jobs"), {"silent_seconds": seconds, "most": BATCH})
        return cursor.fetchall()


@contextmanager
def beating(pool: Engine, job_id: int) -> Iterator[None]:
    """Say that somebody is at work, for as long as the block lasts and the process lives."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_SECONDS):
            try:
                with transaction(pool) as connection:
                    connection.execute(queries.text("dispatch", "beat"), {"job_id": job_id})
            except (Unavailable, psycopg.OperationalError):
                continue  # a beat that is missed is made up for by the next

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
