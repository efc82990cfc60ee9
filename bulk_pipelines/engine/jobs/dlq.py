"""The dead letters: items that were given up. They can be listed, looked at, tried again and discarded."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row, dict_row
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.errors import UnknownJob, WrongState
from bulk_pipelines.engine.items.cursors import EPOCH, START, Position
from bulk_pipelines.engine.jobs import audit, jobs, redrive
from bulk_pipelines.engine.jobs.audit import Actor, Tally
from bulk_pipelines.engine.states import ITEM_MOVES, ItemEvent, ItemState, target
from bulk_pipelines.errors import InvalidInput, NotFound

AT_A_TIME = 1_000


@dataclass(frozen=True)
class Wanted:
    """Which dead letters are meant; a field that is None does not matter."""

    job_key: str | None = None
    kind: str | None = None
    error_class: str | None = None
    older_than: float | None = None
    """How many seconds ago they were buried, at least."""
    owner: str | None = None

    @property
    def everything(self) -> bool:
        return self == Wanted()


@dataclass(frozen=True)
class DeadLetter:
    """An item in the DLQ, and why it is there."""

    item_id: int
    job_key: str
    kind: str
    owner: str
    item_key: str
    attempt_count: int
    death_count: int
    error_class: str | None
    error_message: str
    worker: str | None
    dagster_run_id: str | None
    buried_at: datetime
    input_summary: str | None


def page(connection: Connection, wanted: Wanted, size: int = 100, after: Position = START) -> list[DeadLetter]:
    """Return the dead letters behind `after`, the oldest first. A job that is named must be there."""
    if wanted.job_key is not None:
        jobs.find(connection, wanted.job_key)
    values = asdict(wanted) | {"size": size, "after_time": after.updated_at, "after_id": after.item_id}
    with connection.cursor(row_factory=class_row(DeadLetter)) as cursor:
        return cursor.execute(queries.text("dlq", "dead_letters"), values).fetchall()


def count(connection: Connection, wanted: Wanted) -> int:
    """Return how many dead letters are wanted."""
    row = connection.execute(queries.text("dlq", "count_dead_letters"), asdict(wanted)).fetchone()
    return int(row[0]) if row else 0


def show(connection: Connection, item_id: int) -> dict[str, Any]:
    """Return everything that is known of one dead letter, by the names that people are shown."""
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(queries.text("dlq", "dead_letter"), {"item_id": item_id}).fetchone()
    if found is None:
        raise NotFound(f"no dead letter has the id {item_id}")
    return found


@dataclass(frozen=True)
class TriedAgain:
    """What came of a redrive of dead letters."""

    items: int
    left: Mapping[str, int]
    """How many dead letters of each cancelled job were left where they are."""
    goes_on: bool = False
    """True when the one job that was asked for had nothing buried any more, and goes on with the items that it had
    never begun."""


def try_again(
    pool: Engine,
    wanted: Wanted,
    by: Actor | None = None,
    *,
    not_found: bool = False,
    told: Callable[[int], None] = lambda _: None,
) -> TriedAgain:
    """Redrive all dead letters that are wanted. Those of cancelled jobs are left, and do not keep the others from being
    tried again. With `not_found`, the items of the one job for which nothing was found are tried again, too. `told` is
    called with how many are tried again at a time."""
    items = not_found_again(pool, wanted, by) if not_found else 0
    told(items)
    left: Counter[str] = Counter()
    for job_key, item_ids in by_job(pool, wanted):
        try:
            redriven = redrive.redrive(pool, job_key, [ItemState.DLQ], item_ids, by=by)
            items += redriven
            told(redriven)
        except WrongState:
            if wanted.job_key is not None:
                raise
            left[job_key] += len(item_ids)
        except UnknownJob:
            continue  # retention has just removed it
    goes_on = False
    if not items and wanted.job_key is not None and wanted == Wanted(job_key=wanted.job_key):
        with suppress(UnknownJob):
            goes_on = redrive.go_on(pool, wanted.job_key, by=by)
    return TriedAgain(items, left, goes_on)


def not_found_again(pool: Engine, wanted: Wanted, by: Actor | None) -> int:
    if wanted.job_key is None or wanted != Wanted(job_key=wanted.job_key):
        raise InvalidInput("not-found", "items that were not found are no dead letters: name one job, and nothing else")
    batches = redrive.Batches(ItemState.NOT_FOUND, None)
    return redrive.those_of(pool, wanted.job_key, batches, Tally(by, ItemEvent.REDRIVE))


def discard(pool: Engine, wanted: Wanted, by: Actor | None = None) -> int:
    """Give up for good all dead letters that are wanted, and return how many. Their jobs stay as they ended."""
    if wanted.everything:
        raise InvalidInput("discard", "name a job, a kind, an error class or an age: not everything at once")
    return sum(discard_of(pool, job_key, item_ids, by) for job_key, item_ids in by_job(pool, wanted))


def discard_of(pool: Engine, job_key: str, item_ids: list[int], by: Actor | None = None) -> int:
    with transaction(pool) as connection:
        try:
            job = jobs.find(connection, job_key, jobs.seen_by(by))
        except UnknownJob:
            return 0  # retention has just removed it
        values = {
            "job_id": job.job_id,
            "item_ids": item_ids,
            "discarded": target(ITEM_MOVES, ItemEvent.DISCARD),
        }
        row = connection.execute(queries.text("dlq", "discard_items"), values).fetchone()
        if row:
            audit.note(connection, by, ItemEvent.DISCARD, job.job_id, count=row[0])
        return row[0] if row else 0


def by_job(pool: Engine, wanted: Wanted) -> Iterator[tuple[str, list[int]]]:
    """Yield the ids of the dead letters that are wanted now, by job and a bounded number at a time. Items that are
    buried again meanwhile are left out, so that this comes to an end."""
    position = START
    with transaction(pool) as connection:
        end = connection.execute(queries.text("dlq", "last_burial")).fetchone() or (EPOCH,)
    while True:
        with transaction(pool) as connection:
            letters = [each for each in page(connection, wanted, AT_A_TIME, position) if each.buried_at <= end[0]]
        if not letters:
            return
        position = Position(letters[-1].buried_at, letters[-1].item_id)
        grouped: dict[str, list[int]] = defaultdict(list)
        for letter in letters:
            grouped[letter.job_key].append(letter.item_id)
        yield from grouped.items()
