"""Planning an import whose file was sent with the request: it lies in the landing storage, whole or in parts."""

from collections.abc import Iterator

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.imports.plan.land import landing as landed_files
from bulk_pipelines.imports.sent import digests, uploads
from bulk_pipelines.imports.sent.uploads import Upload
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import landing, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.compression import Compression
from bulk_pipelines.storage.contract import Entry, Storage


def upload_of(pool: Engine, job: Job) -> Upload | None:
    """Return the upload that the job's file came with; None if it came in no upload."""
    if job.file_id is None:
        return None
    with transaction(pool) as connection:
        return uploads.of_job(connection, job.job_key)


def put_together(upload: Upload, compression: Compression | None, chosen: Settings) -> landing.Landed:
    """Land the parts of an upload as one file. `compression` is what was asked for. Doing it again comes to the same
    file."""
    said = upload.request.get("compression")
    with locations.folder(landed_files.place(chosen), access_of(chosen), "BULK_LANDING_URL") as storage:
        pieces = digests.verified(joined(storage, upload.parts), upload.request.get("digests", {}), "Repr-Digest")
        return landing.land_stream(
            pieces,
            Entry("sent", upload.bytes, None, upload.upload_id),
            upload.shown,
            storage,
            upload.whole,
            landing.limits_of(chosen),
            compression or (None if said is None else Compression(said)),
        )


def joined(storage: Storage, parts: list[str]) -> Iterator[bytes]:
    for part in parts:
        with storage.open(part) as reader:
            yield from reader


def remove_parts(upload: Upload, chosen: Settings) -> None:
    """Remove the parts, once the file that they made is noted as landed."""
    with locations.folder(landed_files.place(chosen), access_of(chosen), "BULK_LANDING_URL") as storage:
        storage.delete(*upload.parts)
