"""Redrive items: those that were buried or not found are tried again, with fresh budgets of tries. Their checkpoints
stay."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import WrongState
from bulk_pipelines.engine.jobs import audit, dispatch, jobs
from bulk_pipelines.engine.jobs.audit import Actor, Tally
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import (
    FINISHED_JOBS,
    ITEM_MOVES,
    JOB_MOVES,
    ItemEvent,
    ItemState,
    JobEvent,
    JobState,
    after,
    sources,
)
from bulk_pipelines.errors import InvalidInput

BATCH = 10_000
REDRIVABLE = sources(ITEM_MOVES, ItemEvent.REDRIVE)


def redrive(
    pool: Engine,
    job_key: str,
    statuses: Iterable[ItemState] = REDRIVABLE,
    item_ids: Sequence[int] | None = None,
    *,
    run_follows: bool = False,
    by: Actor | None = None,
) -> int:
    """Make items PENDING again: all of a job, those in some statuses, or chosen ones. A job that was over goes on, in a
    new run that the relay launches; with `run_follows` the caller's own run works it.

    Return how many items were redriven; items in other states are left alone.
    """
    wanted = checked_statuses(statuses)
    with transaction(pool) as connection:
        jobs.find(connection, job_key, jobs.seen_by(by))
    tally = Tally(by, JobEvent.REDRIVE)
    redriven = sum(those_of(pool, job_key, Batches(status, item_ids, run_follows), tally) for status in wanted)
    if not redriven and item_ids is None and wanted:
        go_on(pool, job_key, run_follows=run_follows, by=by)
    return redriven


def chosen(
    pool: Engine,
    job_key: str,
    statuses: Iterable[ItemState],
    item_ids: Sequence[int],
    tally: Tally,
    *,
    keep_attempts: bool = False,
) -> int:
    """Redrive chosen items, which may be some of many: `tally` counts all of them in one entry of the audit. With
    `keep_attempts`, they have only the tries that they had left."""
    return sum(
        those_of(pool, job_key, Batches(status, item_ids, keep_attempts=keep_attempts), tally)
        for status in checked_statuses(statuses)
    )


def go_on(pool: Engine, job_key: str, *, run_follows: bool = False, by: Actor | None = None) -> bool:
    """Take up a job that failed fast and has no buried item any more, because that was discarded. Its other items were
    never worked, and no redrive of an item would reach them. False when this is no such job."""
    with transaction(pool) as connection:
        job = jobs.lock(connection, job_key, jobs.seen_by(by))
        if not may_go_on(job):
            return False
        jobs.write(connection, job.job_id, after(JOB_MOVES, job.status, JobEvent.REDRIVE))
        audit.note(connection, by, JobEvent.REDRIVE, job.job_id)
        if not run_follows:
            dispatch.want(connection, job.job_id)
        return True


def may_go_on(job: Job) -> bool:
    return job.status is JobState.FAILED and job.fail_fast and job.planned_at is not None and not job.dlq_items


@dataclass(frozen=True)
class Batches:
    """Which items are redriven, and how."""

    status: ItemState
    item_ids: Sequence[int] | None
    run_follows: bool = False
    keep_attempts: bool = False


def those_of(pool: Engine, job_key: str, batches: Batches, tally: Tally) -> int:
    """Redrive as many items as there are now in this status, the oldest first. An item that is buried again meanwhile
    is not redriven again, so this comes to an end."""
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key)
    refuse_cancelled(job_key, job.status)
    there = counted(job, batches.status)
    left = there if batches.item_ids is None else min(there, len(set(batches.item_ids)))
    total = 0
    while total < left:
        redriven = one_batch(pool, job_key, batches, min(BATCH, left - total), tally)
        if not redriven:
            break
        total += redriven
    return total


def counted(job: Job, status: ItemState) -> int:
    """Return how many items the job has in a status that can be redriven."""
    return job.dlq_items if status is ItemState.DLQ else job.not_found_items


def one_batch(pool: Engine, job_key: str, batches: Batches, most: int, tally: Tally) -> int:
    over = sources(JOB_MOVES, JobEvent.REDRIVE)
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key)
        refuse_cancelled(job_key, job.status)
        values = {
            "job_id": job.job_id,
            "status": batches.status,
            "item_ids": None if batches.item_ids is None else list(batches.item_ids),
            "most": most,
            "over": over,
            "run_follows": batches.run_follows,
            "keep_attempts": batches.keep_attempts,
        }
        row = connection.execute(queries.text("items", "redrive_items"), values).fetchone()
        if row is None:
            return 0
        # If a cancel was committed since the look above, this raises, and the redrive is rolled back.
        refuse_cancelled(job_key, JobState(row[1]))
        tally.add(connection, job.job_id, int(row[0]))
        return int(row[0])


def refuse_cancelled(job_key: str, status: JobState) -> None:
    if status in FINISHED_JOBS and status not in sources(JOB_MOVES, JobEvent.REDRIVE):
        raise WrongState(job_key, status, JobEvent.REDRIVE)


def checked_statuses(statuses: Iterable[ItemState | str]) -> list[ItemState]:
    wanted = []
    for status in statuses:
        if status not in REDRIVABLE:
            raise InvalidInput("statuses", f"{status!s} cannot be redriven; only {', '.join(REDRIVABLE)} can")
        wanted.append(ItemState(status))
    return wanted
