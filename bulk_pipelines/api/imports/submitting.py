"""Submitting imports for whoever asks over HTTP: within their limits, with what identifies their request."""

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.imports import sources
from bulk_pipelines.api.imports.requests import Address, SentBody, SentForm
from bulk_pipelines.api.owners.admission import Admission
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.imports.sent import receiving


def from_address(door: Door, caller: Caller, sender: Sender, asked: Address) -> tuple[Submitted, Admission]:
    """Submit an import of files that are fetched from an address."""
    within = sources.allowed(door, caller.actor.admin, asked.sources)
    options = asked.options(within, admin=caller.actor.admin)
    if within is None:
        request = options.request(tuple(RequestedFile(source) for source in asked.sources))
    else:
        request = options.request(tuple(submission.local_file(source) for source in asked.sources))
    admission = Admission(door, sender.owner)
    with transaction(door.pool) as connection:
        admission.admit_new(connection, sender)
        return submission.submit(connection, request, sender), admission


def sent(
    door: Door, sender: Sender, arrival: SentForm[Options] | SentBody[Options], length: int | None
) -> tuple[Submitted, Admission]:
    """Receive a file and submit its import."""
    admission = Admission(door, sender.owner)
    if length is not None:
        admission.refuse_beyond(length)
    return receiving.import_sent(door.pool, door.settings, arrival, sender, admission.admit), admission
