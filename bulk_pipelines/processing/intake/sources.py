"""Where the rows of a job come from. A file is landed first, and what was landed is written down: a plan that goes on
reads the same bytes, whatever has become of the source."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.processing.intake import records, tables
from bulk_pipelines.processing.intake.rows import Records
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
    """Land an archive as it is: its files are unpacked one by one."""
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
def opened(found: LandedSource, chosen: Settings, wanted: Format | None) -> Iterator[Records]:
    """Provide the records of a landed file. `wanted` is the format that it must have."""
    assert found.landed is not None, "a job that has all its items reads nothing more"
    storage, key = locations.file(found.landed, access_of(chosen), "landed")
    with storage:
        table = tables.format_of(storage.read(key, 0, min(tables.HEAD, storage.stat(key).size)))
        if table is not None:
            records.check_format(wanted, table)
            yield records.peeked(tables.opened(storage, key, table, landing.limits_of(chosen)))
            return
        with storage.open(key) as reader:
            yield records.opened(reader, wanted)


def remove(landed: str, chosen: Settings) -> None:
    """Remove a landed copy that nobody reads any more."""
    storage, key = locations.file(landed, access_of(chosen), "landed")
    with storage:
        storage.delete(key)
