"""Retention: remove what is old and over, in bounded transactions that leave room for the work."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database import advisory, queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.items.cursors import EPOCH
from bulk_pipelines.errors import BulkError, Conflict
from bulk_pipelines.settings import Settings

log = logging.getLogger(__name__)

BATCH = 10_000
JOBS_AT_A_TIME = 500


@dataclass(frozen=True)
class Part:
    """Something that has retention of its own. `prune` returns how many it removed, or would remove in a dry run."""

    name: str
    prune: Callable[[Engine, Settings, bool], int]


@dataclass(frozen=True)
class Step:
    """How far a pass is."""

    name: str
    number: int
    of: int
    """How many parts there are. They take very different times, so nothing follows from their number."""
    removed: int = 0
    total: int | None = None
    """How many things this part has to remove; None where counting them would take as long as removing them."""


Told = Callable[[Step], None]


@dataclass(frozen=True)
class Pruned:
    """How many things a part removed, or would remove in a dry run."""

    name: str
    count: int
    problem: str | None = None
    """Why this part could not be completed; the next pass tries it again."""


def run_once(
    pool: Engine,
    chosen: Settings,
    parts: Iterable[Part],
    dry_run: bool = False,
    told: Told = lambda _: None,
) -> list[Pruned]:
    """Make one pass. A part that fails does not stop the other parts. Jobs go last, and only when all parts were
    completed, because the parts find by the jobs what belongs to them. `told` is called when a part begins, and with
    each batch of items that is gone."""
    between = list(parts)
    of = len(between) + 2

    def items(pool: Engine, chosen: Settings, dry_run: bool) -> int:
        return prune_items(pool, chosen, dry_run, lambda gone, total: told(Step("items", 1, of, gone, total)))

    def done_with(number: int, part: Part) -> Pruned:
        told(Step(part.name, number, of))
        return gone_through(pool, chosen, part, dry_run)

    with advisory.held(pool, "bulk_pipelines.prune") as ours:
        if not ours:
            raise Conflict("another retention pass is at work")
        done = [done_with(number, part) for number, part in enumerate((Part("items", items), *between), 1)]
        problems = [part.name for part in done if part.problem]
        if problems:
            return [*done, Pruned("jobs", 0, f"kept until this can be gone through: {', '.join(problems)}")]
        return [*done, done_with(of, Part("jobs", prune_jobs))]


def gone_through(pool: Engine, chosen: Settings, part: Part, dry_run: bool) -> Pruned:
    try:
        return Pruned(part.name, part.prune(pool, chosen, dry_run))
    except Exception as error:
        log.exception("retention of %s has failed", part.name)
        return Pruned(part.name, 0, str(error) if isinstance(error, BulkError) else repr(error))


def prune_items(
    pool: Engine, chosen: Settings, dry_run: bool, told: Callable[[int, int], None] = lambda _gone, _total: None
) -> int:
    """Remove the items of jobs that have been over for long enough; the jobs and their counters stay. The counters say
    beforehand how many items there are at most: a pass that was cut short has removed some of them."""
    days = min(chosen.keep_items_days, chosen.keep_jobs_days)
    if dry_run:
        return counted(pool, "count_prunable_items", days)
    total, removed = counted(pool, "items_of_prunable_jobs", days), 0
    for job_id in jobs_to_prune(pool, days):
        for count in prune_items_of(pool, job_id, days):
            removed += count
            told(removed, max(removed, total))
    return removed


def jobs_to_prune(pool: Engine, days: int) -> Iterator[int]:
    """Yield the id of each job once. A job whose items somebody holds at this moment is left to the next pass."""
    after_time, after_id = EPOCH, 0
    while True:
        values = {"days": days, "most": JOBS_AT_A_TIME, "after_time": after_time, "after_id": after_id}
        with transaction(pool) as connection:
            rows = connection.execute(queries.text("retention", "jobs_to_prune"), values).fetchall()
        if not rows:
            return
        yield from (job_id for job_id, _ in rows)
        after_id, after_time = rows[-1]


def prune_items_of(pool: Engine, job_id: int, days: int) -> Iterator[int]:
    """Yield how many items of the job went with each transaction."""
    values = {"job_id": job_id, "days": days, "most": BATCH}
    yield from batches(pool, "prune_items", values)
    sum(batches(pool, "prune_batch_steps", values))
    with transaction(pool) as connection:
        connection.execute(queries.text("retention", "mark_pruned"), values)


def batches(pool: Engine, name: str, values: dict[str, Any], file: str = "retention") -> Iterator[int]:
    """Run the statement until it removes nothing, and yield how many rows went with each transaction."""
    while True:
        with transaction(pool) as connection:
            count = connection.execute(queries.text(file, name), values).rowcount
        if not count:
            return
        yield count


def prune_audit(pool: Engine, chosen: Settings, dry_run: bool) -> int:
    """Remove old entries of the audit. They are kept for longer than the jobs that they are about."""
    values = {"days": chosen.keep_audit_days, "most": BATCH}
    if not dry_run:
        with transaction(pool) as connection:
            connection.execute(queries.text("quotas", "prune_bytes"))
        return sum(batches(pool, "prune", values, "audit"))
    with transaction(pool) as connection:
        row = connection.execute(queries.text("audit", "count_old"), values).fetchone()
    return int(row[0]) if row else 0


def prune_jobs(pool: Engine, chosen: Settings, dry_run: bool) -> int:
    if dry_run:
        return counted(pool, "count_prunable_jobs", chosen.keep_jobs_days)
    return sum(batches(pool, "prune_jobs", {"days": chosen.keep_jobs_days, "most": JOBS_AT_A_TIME}))


def counted(pool: Engine, name: str, days: int) -> int:
    with transaction(pool) as connection:
        row = connection.execute(queries.text("retention", name), {"days": days}).fetchone()
    return int(row[0]) if row else 0


def finished(connection: Connection, job_keys: Sequence[str]) -> set[str]:
    """Return those of the jobs that are over or gone."""
    values = {"job_keys": list(job_keys)}
    return {row[0] for row in connection.execute(queries.text("retention", "finished_of"), values)}
