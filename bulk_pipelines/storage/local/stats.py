"""What the system says of a file."""

import os
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from bulk_pipelines.errors import Permanent
from bulk_pipelines.storage.contract import Entry


def entry_of(key: str, found: os.stat_result) -> Entry:
    modified = None
    with suppress(ValueError, OverflowError, OSError):  # a file system may hold years that no calendar has
        modified = datetime.fromtimestamp(found.st_mtime_ns / 1e9, UTC)
    return Entry(key, found.st_size, modified, f"{found.st_mtime_ns:x}-{found.st_size:x}")


def identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def regular(found: os.stat_result, url: str) -> os.stat_result:
    if stat.S_ISDIR(found.st_mode):
        raise Permanent(f"{url} is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise Permanent(f"{url} is a device or a pipe, not a file")
    return found


def regular_folder(folder: Path) -> None:
    if not stat.S_ISDIR(folder.stat().st_mode):
        raise Permanent(f"{folder} is a file, not a folder")
