"""The landed files of an import: making them from their sources, opening them for reading, and removing them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bulk_pipelines import settings
from bulk_pipelines.errors import Permanent, Unavailable
from bulk_pipelines.imports.plan.landed_file import LandedFile, LocalFile, StoredFile
from bulk_pipelines.imports.progress import ImportFile
from bulk_pipelines.imports.request import ImportRequest, RequestedFile
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import landing, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import Missing
from bulk_pipelines.storage.landing import Landed
from bulk_pipelines.storage.local.storage import LocalStorage


def place(chosen: Settings) -> str:
    """Return the address or path of the folder in which all landed files lie."""
    return chosen.landing_url or str(chosen.home / "landed")


def land(request: ImportRequest, file: RequestedFile, name: str, chosen: Settings) -> Landed:
    """Land a file under a name that belongs to the job, so that landing it again comes to the same file."""
    access = access_of(chosen)
    with locations.folder(place(chosen), access, "BULK_LANDING_URL") as into:
        limits = landing.limits_of(chosen)
        with locations.Sources(access, request.within) as sources:
            return landing.land_from(
                sources, file.source, into, name, limits, request.compression, version=file.version
            )


def gone(request: ImportRequest, file: RequestedFile, chosen: Settings) -> str | None:
    """Say why the version of the file that is meant can never be landed; return None if it is still at its source, or
    if any version will do."""
    if file.version is None:
        return None
    storage, key = locations.file(file.source, access_of(chosen), "source", request.within)
    with storage:
        try:
            same = storage.stat(key).version == file.version
        except Missing:
            return "it was removed before it was landed"
        except Permanent as error:
            return str(error)
    return None if same else "it was replaced before it was landed"


def is_there(file: ImportFile, chosen: Settings) -> bool:
    """Tell whether the landed file is still there. If nothing was landed of the file, nothing is missing: then it is
    true."""
    if file.landed is None:
        return True
    storage, key = locations.file(file.landed, access_of(chosen), "landed")
    with storage:
        return storage.exists(key)


def remove(storage: Storage, job_key: str) -> None:
    """Remove the landed files of a job that needs them no more, and the files in which its rejects were run again."""
    for pattern in (f"{job_key}/*", f"{job_key}-rejects.*"):
        storage.delete(*(entry.key for entry in list(storage.entries(pattern))))
    if isinstance(storage, LocalStorage):
        with suppress(OSError):  # the folder never was, or somebody put something else into it
            (storage.root / job_key).rmdir()


@contextmanager
def opened(file: ImportFile) -> Iterator[LandedFile]:
    """Open a landed file. A file in a local folder is read in place; one in another storage is read by ranges."""
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
