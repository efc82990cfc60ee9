"""What the tests of storages share: contents, and what is left in a storage."""

import os
from datetime import UTC, datetime, timedelta

from bulk_pipelines.errors import Permanent
from bulk_pipelines.storage.contract import Storage

MB = 1 << 20


def names(storage: Storage, pattern: str = "**") -> list[str]:
    return sorted(entry.key for entry in storage.entries(pattern))


def noise(size: int) -> bytes:
    return os.urandom(1 << 16) * (size >> 16) + os.urandom(size & 0xFFFF)


class Interruption(BaseException):
    """An interruption that is no Exception, as a Ctrl-C is none."""


def everything(storage: Storage) -> list[str]:
    """All files, also hidden and unfinished ones."""
    return sorted(
        {entry.key for pattern in ("**", ".*", "**/.*") for entry in storage.entries(pattern)} | left(storage)
    )


def left(storage: Storage) -> set[str]:
    return {"unfinished"} if storage.sweep(datetime.now(UTC) + timedelta(days=1)) else set()


def storage_has_file(storage: Storage, key: str) -> bool:
    try:
        return storage.exists(key)
    except Permanent:
        return False


def remote_login(storage: Storage) -> bool:
    return storage.url_of("x").startswith(("ftp", "sftp"))
