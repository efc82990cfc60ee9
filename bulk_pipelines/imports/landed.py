"""The landed files of an import: made from their sources, and opened for reading."""

from collections.abc import Iterator
from contextlib import contextmanager

from bulk_pipelines import settings
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.imports.progress import ImportFile
from bulk_pipelines.imports.source import LocalFile, Source, StoredFile
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import landing, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.compression import Compression
from bulk_pipelines.storage.landing import Landed
from bulk_pipelines.storage.local import LocalStorage


def place(chosen: Settings) -> str:
    """The folder of all landed files."""
    return chosen.landing_url or str(chosen.home / "landed")


def land(source: str, name: str, compression: Compression | None, chosen: Settings) -> Landed:
    """Under a name that belongs to the job, so that landing again comes to the same file."""
    access = access_of(chosen)
    with locations.folder(place(chosen), access, "BULK_LANDING_URL") as into:
        return landing.land(source, into, name, access, landing.limits_of(chosen), compression)


def remove(job_key: str, chosen: Settings) -> int:
    """The landed files of a job that needs them no more; how many there were."""
    with locations.folder(place(chosen), access_of(chosen), "BULK_LANDING_URL") as storage:
        keys = [entry.key for entry in storage.entries(f"{job_key}/*")]
        storage.delete(*keys)
    return len(keys)


@contextmanager
def opened(file: ImportFile) -> Iterator[Source]:
    """One of a local folder is read in place; another by ranges."""
    assert file.landed is not None
    assert file.size is not None
    storage, key = locations.file(file.landed, access_of(settings.current()), "landed")
    with storage:
        if isinstance(storage, LocalStorage):
            with LocalFile(storage.root / key) as source:
                if source.size != file.size:
                    raise Unavailable(f"the landed file {file.landed} has changed its size")
                yield source
        else:
            yield StoredFile(storage, key, file.size)
