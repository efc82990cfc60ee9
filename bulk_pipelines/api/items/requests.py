"""Requests to look up rows, in whichever of their forms they come: a form, a plain body, or an address in JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from fastapi import Request
from pydantic import Field

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.files import sources
from bulk_pipelines.api.files.reading import FileAddress, reading_of
from bulk_pipelines.api.files.sent import SentBody, SentForm, json_of, sent_of
from bulk_pipelines.api.owners.admission import Admission
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.errors import InvalidInput, NotFound
from bulk_pipelines.formats.options import HELP
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.sent import planning, receiving, uploads
from bulk_pipelines.imports.sent.appending import ROWS
from bulk_pipelines.imports.sent.receiving import Content
from bulk_pipelines.imports.sent.uploads import Upload
from bulk_pipelines.processing import submission
from bulk_pipelines.processing.intake.sources import LandedSource, note
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.request import ProcessingRequest
from bulk_pipelines.storage.compression import Compression

FIELDS = {
    "recipe": "The recipe that works the rows: `bulk recipes list` shows all.",
    "format": "csv, ndjson, json, xlsx, parquet or arrow; recognised when left out.",
    "compression": "none, gzip, zstd, bzip2 or xz; recognised when left out.",
    "priority": "From -100 to 100: a higher one is launched first.",
    **HELP,
}
"""The options of rows that are sent, each with what it says. They stand in the address or in the form."""


class Address(FileAddress):
    """Rows of a file that is fetched from an address."""

    recipe: str = Field(description=FIELDS["recipe"], examples=["products"])
    url: str = Field(
        description="Where the file is: https://… for everybody.", examples=["https://example.org/products.csv"]
    )
    format: str | None = Field(None, description=FIELDS["format"])
    compression: str | None = Field(None, description=FIELDS["compression"])
    priority: int = Field(0, ge=-100, le=100, description=FIELDS["priority"])


@dataclass(frozen=True)
class Options:
    """The recipe by which the rows of a file are worked, and how the file is read."""

    recipe: Recipe
    format: str | None
    compression: str | None
    reading: Reading

    def request(self, source: str) -> ProcessingRequest:
        """Return the request for rows that were unpacked when they were landed."""
        checked = ProcessingRequest.parse(
            self.recipe, source="rows", format=self.format, compression=self.compression, reading=self.reading
        )
        return replace(checked, source=source, compression=None)


def options_of(door: Door, given: Mapping[str, str], *, admin: bool) -> Options:
    if not given.get("recipe"):
        raise InvalidInput("recipe", "is missing: bulk recipes list shows them")
    found = Options(
        recipe_of(door, given["recipe"]),
        given.get("format") or None,
        given.get("compression") or None,
        reading_of(given, admin=admin),
    )
    found.request("checked")
    return found


def recipe_of(door: Door, name: str) -> Recipe:
    try:
        return library.load(door.settings).recipe(name)
    except NotFound as error:
        raise InvalidInput("recipe", str(error)[:1_000]) from None


def given(request: Request) -> dict[str, str]:
    """Return the options that the address of a request has."""
    return {name: request.query_params[name] for name in FIELDS if name in request.query_params}


def rows_sent(request: Request, door: Door, caller: Caller) -> SentForm[Options] | SentBody[Options]:
    """Return the rows that the request sends."""
    return sent_of(request, FIELDS, partial(options_of, door, admin=caller.actor.admin))


def sent(
    door: Door, sender: Sender, arrival: SentForm[Options] | SentBody[Options], length: int | None
) -> tuple[Submitted, Admission]:
    """Receive a file of rows and submit its job."""
    admission = Admission(door, sender.owner)
    if length is not None:
        admission.refuse_beyond(length)
    return receiving.receive(door.pool, door.settings, arrival, sender, admission.admit, rows_of), admission


def uploaded(door: Door, upload: Upload, sender: Sender, admission: Admission) -> Submitted:
    """Submit the job of an upload of rows that is complete. Its parts are put together first. Their bytes were counted
    against the quota when they came, so none are counted here."""
    options = options_of(door, upload.request[ROWS], admin=True)  # it was checked when the upload began
    said = None if options.compression is None else Compression(options.compression)
    landed = planning.put_together(upload, said, door.settings)
    content = Content(landed.url, landed.bytes, upload.shown, landed.sha256, landed.source_sha256)
    sender = replace(sender, file=upload.file, idempotency_key=upload.idempotency_key)
    with transaction(door.pool) as connection:
        admission.admit(connection, 0)
        submitted = rows_of(connection, options, content, sender)
        uploads.submit(connection, upload, sent=upload.bytes, landed=landed)
    planning.remove_parts(upload, door.settings)
    return submitted


def rows_of(connection: Connection, options: Options, content: Content, sender: Sender) -> Submitted:
    """Submit a job whose rows were landed while they arrived, and note the landed file, so that its plan reads that."""
    request = options.request(content.url)
    identity = replace(request, source=f"sha256/{content.sent_sha256}").as_params()
    submitted = submission.submit(connection, request, sender, identity)
    if submitted.created:
        landed = LandedSource(content.name, content.url, content.bytes, content.sha256)
        note(connection, submitted.job.job_id, landed)
    return submitted


def address_of(body: bytes) -> Address:
    return json_of(Address, body)


def from_address(door: Door, caller: Caller, sender: Sender, asked: Address) -> tuple[Submitted, Admission]:
    """Submit a job whose rows are fetched from an address."""
    within = sources.allowed(door, caller.actor.admin, [asked.url])
    recipe = recipe_of(door, asked.recipe)
    reading = reading_of(asked.model_dump(), admin=caller.actor.admin)
    request = ProcessingRequest.parse(
        recipe, source=asked.url, format=asked.format, compression=asked.compression, reading=reading
    )
    admission = Admission(door, sender.owner)
    with transaction(door.pool) as connection:
        admission.admit_new(connection, sender)
        return submission.submit(connection, replace(request, within=within), sender), admission
