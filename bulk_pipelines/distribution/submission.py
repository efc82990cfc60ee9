"""Taking a request in: checked, then persisted whole, job and inputs in one transaction, before anybody is answered."""

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution.request import checked
from bulk_pipelines.engine.intake import submission
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Sender, Submitted
from bulk_pipelines.engine.kinds import Kind, Kinds


def submit(pool: Engine, kind: Kind, inputs: object, sender: Sender) -> Submitted:
    """Submit a distribution of these inputs, `{indexKey, effectiveDate, asofindicator}` each.

    The same key with the same inputs, in their order, names the job that is there already.
    """
    wanted = checked(inputs)
    request = sender.asks(kind.name, {}, jobs.digest_of(each.name for each in wanted))
    with transaction(pool) as connection:
        return submission.submit(connection, Kinds([kind]), request, ((each.name, each.as_json()) for each in wanted))
