"""Retention: what is old and over goes, in bounded transactions that leave room for the work."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction

Connection = psycopg.Connection[Any]

BATCH = 10_000
JOBS_AT_A_TIME = 500


@dataclass(frozen=True)
class Retention:
    """Days to keep what is over."""

    items_days: int
    jobs_days: int


@dataclass(frozen=True)
class Part:
    """Something that has its own retention: says how many it removed, or would remove in a dry run."""

    name: str
    prune: Callable[[Engine, Retention, bool], int]


@dataclass(frozen=True)
class Pruned:
    name: str
    count: int


def run_once(pool: Engine, retention: Retention, parts: Iterable[Part], dry_run: bool = False) -> list[Pruned]:
    """One pass. Jobs go last: the other parts find what is theirs by them."""
    own = (Part("items", prune_items), Part("jobs", prune_jobs))
    return [Pruned(part.name, part.prune(pool, retention, dry_run)) for part in (*parts, *own)]


def prune_items(pool: Engine, retention: Retention, dry_run: bool) -> int:
    """The items of jobs that have been over for long enough; their jobs and counters stay."""
    days = retention.items_days
    if dry_run:
        with transaction(pool) as connection:
            row = connection.execute(queries.text("retention", "count_prunable_items"), {"days": days}).fetchone()
        return int(row[1]) if row else 0
    removed = 0
    while batch := jobs_to_prune(pool, days):
        removed += sum(prune_items_of(pool, job_id, days) for job_id in batch)
    return removed


def jobs_to_prune(pool: Engine, days: int) -> list[int]:
    with transaction(pool) as connection:
        values = {"days": days, "most": JOBS_AT_A_TIME}
        return [row[0] for row in connection.execute(queries.text("retention", "jobs_to_prune"), values)]


def prune_items_of(pool: Engine, job_id: int, days: int) -> int:
    removed = 0
    values = {"job_id": job_id, "days": days, "most": BATCH}
    while True:
        with transaction(pool) as connection:
            count = connection.execute(queries.text("retention", "prune_items"), values).rowcount
            if not count:
                connection.execute(queries.text("retention", "mark_pruned"), values)
                return removed
            removed += count


def prune_jobs(pool: Engine, retention: Retention, dry_run: bool) -> int:
    values = {"days": retention.jobs_days, "most": BATCH}
    if dry_run:
        with transaction(pool) as connection:
            row = connection.execute(queries.text("retention", "count_prunable_jobs"), values).fetchone()
        return int(row[0]) if row else 0
    removed = 0
    while True:
        with transaction(pool) as connection:
            gone = connection.execute(queries.text("retention", "prune_jobs"), values).fetchall()
        if not gone:
            return removed
        removed += len(gone)


def finished(connection: Connection, job_keys: Sequence[str]) -> set[str]:
    """Which of these jobs are over or gone."""
    values = {"job_keys": list(job_keys)}
    return {row[0] for row in connection.execute(queries.text("retention", "finished_of"), values)}
