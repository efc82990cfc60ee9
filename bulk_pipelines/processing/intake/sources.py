"""The sources of rows. A file is landed first, and the copy is noted in the database, so a plan that goes on reads the
same bytes, whatever has become of the source."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from psycopg.rows import class_row
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.processing.intake import records, shaping, tables
from bulk_pipelines.processing.intake.archives import Stored
from bulk_pipelines.processing.intake.rows import Records, Told
from bulk_pipelines.processing.request import Format, ProcessingRequest
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import addresses, landing, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.compression import Compression


@dataclass(frozen=True)
class LandedSource:
    source: str
    """The address of the source, as it may be shown."""
    landed: str | None
    bytes: int
    sha256: str
    format: Format | None = None
    columns: tuple[str, ...] = ()


def folder(chosen: Settings) -> str:
    return chosen.landing_url or str(chosen.home / "landed")


def land(request: ProcessingRequest, job: Job, chosen: Settings) -> LandedSource:
    access = access_of(chosen)
    sources = locations.Sources(access, request.within or None)
    with locations.folder(folder(chosen), access, "BULK_LANDING_URL") as into, sources as opened:
        copy = landing.land_from(
            opened,
            request.source,
            into,
            f"{job.job_key}/rows",
            landing.limits_of(chosen),
            request.compression,
            version=request.version or None,
        )
    return LandedSource(copy.source, copy.url, copy.bytes, copy.sha256)


def landed_archive(request: ProcessingRequest, job: Job, chosen: Settings) -> LandedSource:
    """Land an archive without unpacking it: its files are unpacked one by one when they are read."""
    return land(replace(request, compression=Compression.NONE), job, chosen)


def folder_source(request: ProcessingRequest) -> LandedSource:
    return LandedSource(addresses.redacted(request.source), None, 0, "")


def noted(connection: Connection, job_id: int) -> LandedSource | None:
    """Return what was landed of a job's source, if anything was."""
    with connection.cursor(row_factory=class_row(LandedSource)) as cursor:
        return cursor.execute(queries.text("processing", "landed_source"), {"job_id": job_id}).fetchone()


def note(connection: Connection, job_id: int, found: LandedSource) -> None:
    values = vars(found) | {"job_id": job_id, "columns": list(found.columns)}
    connection.execute(queries.text("processing", "note_source"), values)


@contextmanager
def opened(found: LandedSource, chosen: Settings, told: Told, pool: Engine) -> Iterator[Records]:
    """Provide the records of a landed file."""
    assert found.landed is not None, "a job that has all its items reads nothing more"
    storage, key = locations.file(found.landed, access_of(chosen), "landed")
    with storage:
        file = Stored(storage, key)
        if tables.is_table(file.read(0, min(tables.HEAD, file.size))):
            rows = tables.opened(file, found.source, told, landing.limits_of(chosen))
            yield shaping.opened(rows, told, pool)
            return
        with storage.open(key) as reader:
            yield shaping.opened(records.opened(reader, told), told, pool)


def remove(landed: str, chosen: Settings) -> None:
    """Remove a landed copy that nobody reads any more."""
    storage, key = locations.file(landed, access_of(chosen), "landed")
    with storage:
        storage.delete(key)
