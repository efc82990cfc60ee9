"""Submitting a distribution: its job and all its inputs are written in one transaction, before the caller gets an
answer."""

from collections.abc import Callable

from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.distribution.request import DistributionRequest
from bulk_pipelines.engine.intake import submission
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.engine.kinds import Kind, Kinds

Admit = Callable[[Connection, int], None]
"""Refuses a job of so many inputs that its owner may not have."""


def unlimited(_connection: Connection, _inputs: int) -> None:
    """Whoever submits on this machine may have as much as they like."""


def submit(
    pool: Engine, kind: Kind, request: DistributionRequest, sender: Sender, admit: Admit = unlimited
) -> Submitted:
    """Submit a distribution. If the same inputs, in the same order, were submitted before under this idempotency key,
    return the job that is there already."""
    asked = sender.asks(kind.name, {}, request.identity)
    with transaction(pool) as connection:
        admit(connection, len(request.inputs))
        return submission.submit(connection, Kinds([kind]), asked, (each.encoded() for each in request.inputs))
