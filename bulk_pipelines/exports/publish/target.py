"""Where an export's file goes: into a folder under a name that belongs to its job alone, or under a name that was given
for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.request import TARGET, ExportRequest, names_file
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import addresses, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage

FOLDER = "exports"


@dataclass(frozen=True)
class Place:
    """The place of one export's file: a storage and a key in it."""

    storage: Storage
    key: str
    is_ours: bool
    """Whether only this export writes a file of that name."""

    @property
    def url(self) -> str:
        return self.storage.url_of(self.key)


def require_folder(to: str) -> None:
    """Refuse a target on this machine whose parent folder is missing. The last folder is made for a new export, but no
    folder above it, because a missing one is mostly mistyped."""
    address = addresses.parse(to, TARGET) if to else None
    if address is None or address.scheme != "file":
        return
    path = Path(address.path)
    if not names_file(to) and path.is_dir():
        return
    if not path.parent.is_dir():
        is_ = "is not a folder" if path.parent.exists() else "does not exist"
        raise InvalidInput(TARGET, f"the folder {path.parent} {is_}: make it, or name another one")
    if not names_file(to) and path.exists():
        raise InvalidInput(TARGET, f"{path} is a file, and not named as one of this format is; name a folder")


@contextmanager
def opened(request: ExportRequest, job_key: str, settings: Settings) -> Iterator[Place]:
    access = access_of(settings)
    if names_file(request.to):
        storage, key = locations.file(request.to, access, TARGET)
        with storage:
            yield Place(storage, key, is_ours=False)
    else:
        url = request.to or settings.exports_url or str(settings.home / FOLDER)
        with locations.folder(url, access, TARGET if request.to else "BULK_EXPORTS_URL") as storage:
            yield Place(storage, f"{request.resource}-{job_key}{request.suffix}", is_ours=True)
