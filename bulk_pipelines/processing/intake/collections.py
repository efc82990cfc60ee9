"""Folders and zip archives as sources: each file in them is a row."""

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from bulk_pipelines.engine.intake.persist import Item
from bulk_pipelines.engine.outcomes import storable
from bulk_pipelines.formats.files.archives import fits
from bulk_pipelines.processing.intake import archives
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import addresses, locations
from bulk_pipelines.storage.access import access_of

COLUMNS = ("file", "bytes")
LONGEST_KEY = 200
LITTER = ("__MACOSX", "Thumbs.db", "desktop.ini")
"""Files that desktops leave in folders. They are no rows, and neither are files whose names begin with a dot."""


def is_collection(source: str) -> bool:
    return is_folder(source) or is_archive(source)


def is_folder(source: str) -> bool:
    address = addresses.parse(source, "source")
    if address.scheme == "file":
        return Path(address.path).is_dir()
    return address.scheme not in ("http", "https") and address.path.endswith(("/", "")) and source.endswith("/")


def is_archive(source: str) -> bool:
    return addresses.parse(source, "source").path.lower().endswith(".zip")


def of_folder(source: str, chosen: Settings) -> Iterator[Item]:
    with locations.folder(source, access_of(chosen), "source") as storage:
        for entry in storage.entries():
            if not is_litter(entry.key):
                yield item_key(entry.key), {"file": entry.key, "bytes": entry.size}


def of_archive(landed: str, chosen: Settings, member: str | None = None) -> Iterator[Item]:
    """Yield the files of an archive, or those whose names are like `member`."""
    for number, info in enumerate(archives.opened(landed, chosen).infolist()):
        if member is not None and not fits(info.filename, member):
            continue
        if not info.is_dir() and not is_litter(info.filename):
            row: dict[str, Any] = {"file": named(info.filename), "bytes": info.file_size, "member": number}
            yield f"{number:09}", row


def is_litter(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return any((part.startswith(".") and part not in (".", "..")) or part in LITTER for part in parts)


def named(name: str) -> str:
    """Return a name of an archive as PostgreSQL can keep it; the file is found by its number."""
    return storable(name.encode("utf-8", "backslashreplace").decode())[:1_000] or "?"


def item_key(name: str) -> str:
    """Return the key of a file's row: its name, or as much of it as a key holds."""
    data = name.encode()
    if len(data) <= LONGEST_KEY:
        return name
    return f"{data[:120].decode(errors='ignore')}~{hashlib.sha256(data).hexdigest()}"
