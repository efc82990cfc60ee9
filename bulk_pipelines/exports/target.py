"""Where an export's file goes: into a folder, under a name that is its job's alone, or under a name that was given."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import addresses, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage

FIELD = "to"
STDOUT = "-"
FOLDER = "exports"
FILE_NAME = re.compile(rf".*\.({'|'.join(Format)})(\.gz|\.zst)?", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """The file of one export."""

    storage: Storage
    key: str
    is_ours: bool
    """Whether nobody but this export writes a file of that name."""

    @property
    def url(self) -> str:
        return self.storage.url_of(self.key)


def require_folder(to: str) -> None:
    """A folder of this machine is made for a new export, but none on the way to it: those are mistyped, mostly."""
    address = addresses.parse(to, FIELD) if to else None
    if address is None or address.scheme != "file":
        return
    path = Path(address.path)
    if not names_file(to) and path.is_dir():
        return
    if not path.parent.is_dir():
        is_ = "is not a folder" if path.parent.exists() else "does not exist"
        raise InvalidInput(FIELD, f"the folder {path.parent} {is_}: make it, or name another one")
    if not names_file(to) and path.exists():
        raise InvalidInput(FIELD, f"{path} is a file, and not named as one of this format is; name a folder")


def checked(to: str, request: ExportRequest) -> str:
    """A target as a job keeps it: a local path whole, since it is for another process. Empty: the settings' folder."""
    if not to:
        return ""
    if to == STDOUT:
        raise InvalidInput(FIELD, "only `bulk export` has a standard output, -: name a folder or a file")
    address = addresses.parse(to, FIELD)
    if address.scheme in {"http", "https"}:
        raise InvalidInput(FIELD, f"{addresses.redacted(to)} is a web address: it can only be read")
    name = last_part(to)
    if names_file(to) and not name.endswith(request.suffix):
        raise InvalidInput(FIELD, f"{name} does not end in {request.suffix}, as such a file does; or name a folder")
    if address.scheme != "file":
        return to
    return address.path + ("/" if to.endswith("/") else "")


def names_file(to: str) -> bool:
    """A name that ends as an exported file's is one; all others are folders."""
    return FILE_NAME.fullmatch(last_part(to)) is not None


def last_part(to: str) -> str:
    return to.rpartition("/")[2]


@contextmanager
def opened(to: str, request: ExportRequest, job_key: str, settings: Settings) -> Iterator[Place]:
    access = access_of(settings)
    if names_file(to):
        storage, key = locations.file(to, access, FIELD)
        with storage:
            yield Place(storage, key, is_ours=False)
    else:
        url = to or settings.exports_url or str(settings.home / FOLDER)
        with locations.folder(url, access, FIELD if to else "BULK_EXPORTS_URL") as storage:
            yield Place(storage, f"{request.resource}-{job_key}{request.suffix}", is_ours=True)
