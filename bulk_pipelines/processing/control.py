"""Control of a job beyond pause, resume and cancel: rows are tried again, and a slice of work is done here and now."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import audit, jobs, redrive
from bulk_pipelines.engine.jobs.audit import Actor, Tally
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.engine.states import FINISHED_JOBS, ItemState, JobEvent, JobState
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.drain import Drained, End
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.stopping import Stop
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.processing import conditions, types, work
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.kind import kinds_of
from bulk_pipelines.processing.review import deciding
from bulk_pipelines.processing.submission import processing_job
from bulk_pipelines.processing.work import recipe_of_job

AT_A_TIME = 10_000
LONGEST_SLICE = 3_600.0
STATES = {"ERROR": ItemState.DLQ, "DLQ": ItemState.DLQ, "NOT_FOUND": ItemState.NOT_FOUND}
"""The words for the states whose rows can be tried again. `ERROR` is the API's word, `DLQ` the engine's."""


@dataclass(frozen=True)
class Chosen:
    """Which rows are meant: those that meet all of these conditions."""

    statuses: tuple[ItemState, ...] = (ItemState.DLQ, ItemState.NOT_FOUND)
    item_keys: tuple[str, ...] | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    """Columns of the source, with the values that they have."""
    error_like: str | None = None
    """A part of the error's text."""
    error_class: str | None = None
    item_ids: tuple[int, ...] | None = None

    @classmethod
    def parse(
        cls,
        statuses: Iterable[str] = (),
        item_keys: Iterable[str] = (),
        where: Iterable[str] = (),
        error_like: str | None = None,
        error_class: str | None = None,
    ) -> "Chosen":
        found = []
        for status in statuses:
            if status.upper() not in STATES:
                raise InvalidInput("statuses", f"{status!r} is none of {', '.join(STATES)}")
            found.append(STATES[status.upper()])
        keys = tuple(payload.text("items", each) for each in item_keys)
        return cls(
            tuple(dict.fromkeys(found)) or cls.statuses,
            keys or None,
            conditions.parsed(where),
            error_like or None,
            error_class,
        )


def reprocess(
    pool: Engine,
    job_key: str,
    chosen: Chosen,
    *,
    variants: Sequence[str] = (),
    keep_attempts: bool = False,
    dry_run: bool = False,
    by: Actor | None = None,
) -> int:
    """Try the chosen rows again, and return how many. Their budgets begin anew; with `keep_attempts`, only rows that
    have attempts left are chosen, and they get no new ones. `variants` names the variants to try, in place of the
    recipe's order. In a dry run nothing is changed."""
    with transaction(pool) as connection:
        job = processing_job(connection, job_key, jobs.seen_by(by))
    recipe_of_job(job).named(tuple(variants))
    if job.status is JobState.CANCELLED:
        raise Conflict(f"job {job_key} is CANCELLED: none of its rows is tried again")
    if dry_run:
        return sum(len(each) for each in found(pool, job, chosen, keep_attempts=keep_attempts))
    if chosen == Chosen():
        deciding.apply(pool, job_key, None)  # what reviewers decided about the rows that are done
    redriven = 0
    tally = Tally(by, JobEvent.REDRIVE)
    # The rows are listed before any of them is tried again: one that fails once more is not tried twice.
    for item_ids in list(found(pool, job, chosen, keep_attempts=keep_attempts)):
        values = {"item_ids": item_ids, "variants": list(variants) or None}
        with transaction(pool) as connection:
            connection.execute(queries.text("processing", "choose_variants"), values)
        redriven += redrive.chosen(pool, job_key, chosen.statuses, item_ids, tally, keep_attempts=keep_attempts)
    return redriven


def found(pool: Engine, job: Job, chosen: Chosen, *, keep_attempts: bool = False) -> Iterator[list[int]]:
    """Yield the ids of the chosen rows, a bounded number at a time."""
    recipe = recipe_of_job(job)
    after = 0
    while True:
        values = {
            "job_id": job.job_id,
            "statuses": list(chosen.statuses),
            "after": after,
            "item_keys": None if chosen.item_keys is None else list(chosen.item_keys),
            "item_ids": None if chosen.item_ids is None else list(chosen.item_ids),
            "attempts": recipe.attempts if keep_attempts else None,
            "not_found_attempts": types.not_found_attempts(recipe),
            "error_like": chosen.error_like,
            "error_class": chosen.error_class,
            "input": json.dumps(dict(chosen.where)),
            "most": AT_A_TIME,
        }
        with transaction(pool) as connection:
            ids = [row[0] for row in connection.execute(queries.text("processing", "reprocessable"), values)]
        if not ids:
            return
        yield ids
        after = ids[-1]


@dataclass(frozen=True)
class Kicked:
    """What a kick-off came to."""

    job: Job
    drained: Drained | None
    """What the slice did; None when there was nothing to do."""

    @property
    def ended(self) -> str:
        """Why the slice ended."""
        if self.drained is not None:
            return self.drained.end.value
        if self.job.finished or self.job.status is JobState.PAUSED:
            return (End.FINISHED if self.job.finished else End.PAUSED).value
        return "planning" if self.job.planned_at is None else End.OUT_OF_TIME.value

    def as_json(self) -> dict[str, Any]:
        return {
            "jobId": self.job.job_key,
            "status": str(self.job.status),
            "worked": self.drained.worked if self.drained else 0,
            "open": self.job.open_items,
            "ended": self.ended,
        }


def kick_off(
    pool: Engine, job_key: str, seconds: float, *, by: Actor | None = None, stop: Stop | None = None
) -> Kicked:
    """Work a job in this process for so many seconds, beside whoever works it elsewhere. Its rows are persisted first,
    if nobody has done that; if there is no time for all of them, the next kick-off goes on with the rest. `stop` ends
    the work early."""
    if not 0 < seconds <= LONGEST_SLICE:
        raise InvalidInput("seconds", f"must be above 0 and at most {LONGEST_SLICE:,.0f}, not {seconds:g}")
    asked = stop or Stop()
    work.declared.cache_clear()  # each slice uses the declarations as they are now
    deadline = time.monotonic() + seconds
    with transaction(pool) as connection:
        job = processing_job(connection, job_key, jobs.seen_by(by))
        if job.status is JobState.SUBMITTED:
            # The job still wants the run that is to go on with it.
            job = jobs.move(connection, job_key, JobEvent.START)
        audit.note(connection, by, "kick off", job.job_id, seconds=seconds)
    if job.status in FINISHED_JOBS or job.status is JobState.PAUSED:
        return Kicked(job, None)
    if job.planned_at is None:
        job = planning.plan(pool, job, lambda: asked.is_set() or time.monotonic() >= deadline)
    drained = None
    left = deadline - time.monotonic()
    if job.planned_at is not None and left > 0:
        with Worker(pool, kinds_of(limits_of(settings.current().engine)), job) as worker:
            worker.standing.asked = asked
            drained = drain.drain(worker, seconds=left, patient=False)
    with transaction(pool) as connection:
        return Kicked(jobs.find(connection, job_key), drained)
