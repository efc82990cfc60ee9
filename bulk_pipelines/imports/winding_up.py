"""Winding up imports that were cancelled, aborted or given up: no record stays undecided, and the records that were
never reached are counted."""

import logging

from sqlalchemy import Engine

from bulk_pipelines import resources
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs import cut_short, end, jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.imports import completion, progress
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.kind import known_kinds
from bulk_pipelines.imports.load import staging
from bulk_pipelines.imports.reconcile import set_aside, unreached
from bulk_pipelines.imports.request import ImportRequest
from bulk_pipelines.imports.work import Plan, plan_of
from bulk_pipelines.resources.declaration import Resource

log = logging.getLogger(__name__)


def wind_up(pool: Engine, job_key: str) -> None:
    """Wind up an import that ended before its time. Whoever sees it first does this; the others find it done."""
    with end.alone(pool, job_key) as ours:
        if not ours:
            return
        with transaction(pool) as connection:
            job = jobs.find(connection, job_key)
        if not job.finished or job.result is not None or job.planned_at is None or job.running_items:
            return
        plan = plan_of(pool, job)
        decide(pool, job, plan)
        with transaction(pool) as connection:
            job = jobs.lock(connection, job_key)
            if not job.finished:
                return  # a redrive came in between
            if not completion.may_go_on(job):
                give_up(connection, plan.request.declared, job.job_id)
                staging.drop(connection, plan.request.declared, job.job_id)
            result = completion.summary(connection, job, plan.request, progress.read(connection, job.job_id))
            jobs.set_result(connection, job.job_id, result)
        completion.tell(job, result)


def decide(pool: Engine, job: Job, plan: Plan) -> None:
    """Decide about the records of an insert or a validation that wait, and complete the rejects. If somebody has
    changed or removed the table, so that nothing may be written to it, the records stay as they are."""
    if plan.request.mode is not Mode.UPSERT:
        try:
            completion.reconcile(pool, job)
        except (Conflict, InvalidInput) as error:
            log.warning("records of %s that wait stay undecided: %s", job.job_key, error)
        else:
            return
    unreached.count(pool, job, plan)
    completion.complete_rejects(lambda: transaction(pool), job, plan)


def give_up(connection: Connection, resource: Resource, job_id: int) -> None:
    """Remove the records that still wait, and count them as unprocessed, since nothing will decide them. Records of an
    insert that wait are already counted as rejected."""
    set_aside.clear(connection, resource, job_id)
    undecided = progress.read(connection, job_id).counts.waiting
    progress.add(connection, job_id, Counts(read=-undecided, waiting=-undecided, unprocessed=undecided))


def wind_up_all(pool: Engine) -> int:
    """Wind up the imports that nobody was left to wind up, and return how many."""
    count = cut_short.wind_up_all(pool, wind_up, *ended_without_result())
    for resource in resources.RESOURCES:
        forget_waiting(pool, resource)
    forget_staged(pool)
    return count


def is_anything_due(pool: Engine) -> bool:
    """Whether `wind_up_all` would find something to do."""
    if cut_short.is_anything_due(pool, *ended_without_result()):
        return True
    with transaction(pool) as connection:
        return bool(staging.left_behind(connection)) or any(
            set_aside.left_behind(connection, resource) for resource in resources.RESOURCES
        )


def ended_without_result() -> tuple[str, dict[str, list[str]]]:
    """Return the query for the imports that nobody was left to wind up, and its values."""
    kinds = list(known_kinds())
    return queries.text("import_progress", "ended_without_result"), {"kinds": kinds}


def forget_staged(pool: Engine) -> None:
    """Drop the tables of imports into tables of somebody else that can never go on, and remove the records there."""
    with transaction(pool) as connection:
        left_behind = staging.left_behind(connection)
    for job_id, job_key in left_behind:
        with transaction(pool) as connection:
            job = None if job_key is None else jobs.find(connection, job_key)
            if job is None:
                staging.drop_all(connection, job_id)
                continue
            resource = ImportRequest.from_params(job.params).declared
            if job.result is not None:
                give_up(connection, resource, job_id)
                counts = progress.read(connection, job_id).counts
                jobs.set_result(connection, job_id, job.result | vars(counts))
            staging.drop(connection, resource, job_id)


def forget_waiting(pool: Engine, resource: Resource) -> None:
    """Remove records that were set aside for a redrive that can never come: the buried ranges were discarded, or
    retention has removed them."""
    with transaction(pool) as connection:
        left_behind = set_aside.left_behind(connection, resource)
    for job_id, job_key in left_behind:
        with transaction(pool) as connection:
            if job_key is None:
                set_aside.clear(connection, resource, job_id)
                continue
            give_up(connection, resource, job_id)
            job = jobs.find(connection, job_key)
            counts = progress.read(connection, job_id).counts
            jobs.set_result(connection, job_id, (job.result or {}) | vars(counts))
