"""Submitting imports for whoever asks over HTTP: within their limits, with what identifies their request."""

from dataclasses import dataclass

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.files import sources
from bulk_pipelines.api.files.sent import SentBody, SentForm
from bulk_pipelines.api.imports import tables
from bulk_pipelines.api.imports.requests import Address
from bulk_pipelines.api.owners.admission import Admission
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.afterwards import replays
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.imports.sent import receiving
from bulk_pipelines.imports.sent.receiving import Content


def from_address(door: Door, caller: Caller, sender: Sender, asked: Address) -> tuple[Submitted, Admission]:
    """Submit an import of files that are fetched from an address."""
    within = sources.allowed(door, caller.actor.admin, asked.sources)
    admin = caller.actor.admin
    options = asked.options(within, tables.declare_of(door, admin=admin), admin=admin)
    if within is None:
        request = options.request(tuple(RequestedFile(source) for source in asked.sources))
    else:
        request = options.request(tuple(RequestedFile.of(source) for source in asked.sources))
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


@dataclass(frozen=True)
class Mended:
    """The options of mended records. There are none, because the options of their import hold."""

    compression: str | None = None


def mended(
    door: Door, caller: Caller, sender: Sender, job_key: str, arrival: SentForm[Mended] | SentBody[Mended]
) -> tuple[Submitted, Admission]:
    """Receive records that somebody has mended, and submit their import."""
    admission = Admission(door, sender.owner)

    def submit(connection: Connection, _: Mended, content: Content, sender: Sender) -> Submitted:
        file = RequestedFile(content.url, content.bytes, name=content.name)
        return replays.replay_mended(
            connection,
            job_key,
            [file],
            caller.actor,
            sender.idempotency_key,
            sent=sender.file,
            content=f"sha256/{content.sent_sha256}",
        )

    return receiving.receive(door.pool, door.settings, arrival, sender, admission.admit, submit), admission
