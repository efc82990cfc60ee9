"""Submitting a distribution. The request is checked, then its job and all its inputs are written in one transaction,
before the caller gets an answer."""

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution.request import checked
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Request, Submitted
from bulk_pipelines.engine.kinds import Kind, Kinds


def submit(  # noqa: PLR0913 - what a request says of itself, each by its name
    pool: Engine,
    kind: Kind,
    inputs: object,
    *,
    owner: str,
    origin: str = "api",
    idempotency_key: str | None = None,
    request_id: str | None = None,
    trace_parent: str | None = None,
    priority: int = 0,
) -> Submitted:
    """Write the job of these inputs, each of which is `{indexKey, effectiveDate, asofindicator}`.

    If the same inputs, in the same order, were submitted before under this idempotency key, return the job that is
    there already.
    """
    wanted = checked(inputs)
    request = Request(
        kind.name,
        owner,
        params={},
        origin=origin,
        idempotency_key=idempotency_key,
        request_id=request_id,
        trace_parent=trace_parent,
        digest=jobs.digest_of(each.name for each in wanted),
        priority=priority,
    )
    with transaction(pool) as connection:
        submitted = jobs.submit(connection, Kinds([kind]), request)
        if not submitted.created:
            return submitted
        job = submitted.job
        persist.add_all(connection, job.job_id, ((each.name, each.as_json()) for each in wanted))
        return Submitted(jobs.find(connection, job.job_key), created=True)
