"""Submitting imports for whoever asks over HTTP: within their limits, with what identifies their request."""

from collections.abc import Mapping
from dataclasses import dataclass

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.imports import sources
from bulk_pipelines.api.imports.requests import Address, SentBody, SentForm
from bulk_pipelines.api.owners import quotas
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs import quotas as limits
from bulk_pipelines.engine.jobs.jobs import Sender, Submitted
from bulk_pipelines.engine.jobs.quotas import Left
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.imports.sent import receiving, uploads


@dataclass
class Admission:
    """Admits a job of an owner, and remembers how much more the owner may have."""

    door: Door
    owner: str
    left: Left | None = None

    def admit(self, connection: Connection, sent: int = 0) -> None:
        self.left = limits.admit(connection, self.owner, quotas.quota_of(self.door.settings), sent=sent)

    def count(self, connection: Connection, sent: int) -> None:
        limits.count(connection, self.owner, quotas.quota_of(self.door.settings), sent)

    @property
    def headers(self) -> Mapping[str, str]:
        return {} if self.left is None else quotas.headers(quotas.quota_of(self.door.settings), self.left)

    def refuse_beyond(self, size: int) -> None:
        """Raise `OverQuota` when so many bytes are more than the owner may send."""
        with transaction(self.door.pool) as connection:
            limits.refuse_bytes(connection, self.owner, quotas.quota_of(self.door.settings), size)


def from_address(door: Door, caller: Caller, sender: Sender, asked: Address) -> tuple[Submitted, Admission]:
    """Submit an import of files that are fetched from an address."""
    within = sources.allowed(door, caller.actor.admin, asked.sources)
    options = asked.options(within)
    if within is None:
        request = options.request(tuple(RequestedFile(source) for source in asked.sources))
    else:
        request = options.request(tuple(submission.local_file(source) for source in asked.sources))
    admission = Admission(door, sender.owner)
    with transaction(door.pool) as connection:
        if not known(connection, sender):
            if sender.idempotency_key is not None:
                uploads.refuse_arriving(connection, sender.owner, sender.idempotency_key)
            admission.admit(connection)
        return submission.submit(connection, request, sender), admission


def known(connection: Connection, sender: Sender) -> bool:
    """Whether the idempotency key stands for a job already: then nothing new is asked for."""
    key = sender.idempotency_key
    return key is not None and jobs.find_by_key(connection, sender.owner, key) is not None


def sent(
    door: Door, sender: Sender, arrival: SentForm[Options] | SentBody[Options], length: int | None
) -> tuple[Submitted, Admission]:
    """Receive a file and submit its import."""
    admission = Admission(door, sender.owner)
    if length is not None:
        admission.refuse_beyond(length)
    return receiving.import_sent(door.pool, door.settings, arrival, sender, admission.admit), admission
