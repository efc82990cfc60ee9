"""Submitting a distribution. The request is checked, then its job and all its inputs are written in one transaction,
before the caller gets an answer."""

from collections.abc import Callable

from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.distribution.request import checked
from bulk_pipelines.engine.intake import submission
from bulk_pipelines.engine.jobs.submission import Sender, Submitted, digest_of
from bulk_pipelines.engine.kinds import Kind, Kinds

Admit = Callable[[Connection, int], None]
"""Refuses a job of so many inputs that its owner may not have."""


def unlimited(_connection: Connection, _inputs: int) -> None:
    """Whoever submits on this machine may have as much as they like."""


def submit(pool: Engine, kind: Kind, inputs: object, sender: Sender, admit: Admit = unlimited) -> Submitted:
    """Submit a distribution of these inputs, `{indexKey, effectiveDate, asofindicator}` each.

    If the same inputs, in the same order, were submitted before under this idempotency key, return the job that is
    there already.
    """
    wanted = checked(inputs)
    request = sender.asks(kind.name, {}, digest_of(each.name for each in wanted))
    with transaction(pool) as connection:
        admit(connection, len(wanted))
        return submission.submit(connection, Kinds([kind]), request, (each.encoded() for each in wanted))
