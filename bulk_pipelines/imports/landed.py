"""The landed files of an import: made from their sources, and opened for reading."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bulk_pipelines import settings
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.imports.asked import Asked, AskedFile
from bulk_pipelines.imports.progress import ImportFile
from bulk_pipelines.imports.source import LocalFile, Source, StoredFile
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import landing, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import Missing, Permanent
from bulk_pipelines.storage.landing import Landed
from bulk_pipelines.storage.local import LocalStorage


def place(chosen: Settings) -> str:
    """The folder of all landed files."""
    return chosen.landing_url or str(chosen.home / "landed")


def land(asked: Asked, file: AskedFile, name: str, chosen: Settings) -> Landed:
    """Under a name that belongs to the job, so that landing again comes to the same file."""
    access = access_of(chosen)
    with locations.folder(place(chosen), access, "BULK_LANDING_URL") as into:
        limits = landing.limits_of(chosen)
        with locations.Sources(access, asked.within) as sources:
            return landing.land_from(sources, file.source, into, name, limits, asked.compression, version=file.version)


def gone(asked: Asked, file: AskedFile, chosen: Settings) -> str | None:
    """Why the version that is meant can never be landed; None if it lies there, or any would do."""
    if file.version is None:
        return None
    storage, key = locations.file(file.source, access_of(chosen), "source", asked.within)
    with storage:
        try:
            same = storage.stat(key).version == file.version
        except Missing:
            return "it was removed before it was landed"
        except Permanent as error:
            return str(error)
    return None if same else "it was replaced before it was landed"


def is_there(file: ImportFile, chosen: Settings) -> bool:
    """Whether what was landed of the file, if anything, can still be read."""
    if file.landed is None:
        return True
    storage, key = locations.file(file.landed, access_of(chosen), "landed")
    with storage:
        return storage.exists(key)


def remove(storage: Storage, job_key: str) -> None:
    """What was landed of a job that needs it no more, and its rejects as they were run again."""
    for pattern in (f"{job_key}/*", f"{job_key}-rejects.*"):
        storage.delete(*(entry.key for entry in list(storage.entries(pattern))))
    if isinstance(storage, LocalStorage):
        with suppress(OSError):  # it never was, or somebody put something else there
            (storage.root / job_key).rmdir()


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
