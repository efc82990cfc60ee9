"""Whether a file that was generated before is used again. The policy has to allow it, and the file still has to be what
it was."""

import hashlib
from dataclasses import dataclass
from datetime import date, timedelta

from bulk_pipelines.distribution.request import Input
from bulk_pipelines.errors import Permanent
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import SourceChanged


@dataclass(frozen=True)
class ReusePolicy:
    enabled: bool = True
    days: int = 7
    """Data younger than so many days may still change, so their files are always generated."""

    def allows(self, wanted: Input, today: date) -> bool:
        return self.enabled and wanted.effective_date <= today - timedelta(days=self.days)


@dataclass(frozen=True, slots=True)
class Artifact:
    """The newest generated file of an input, as the registry has it."""

    index_key: str
    effective_date: date
    asof_indicator: str
    path: str
    size: int
    checksum: str
    version: str
    row_count: int
    source_job_key: str

    @property
    def input(self) -> Input:
        return Input(self.index_key, self.effective_date, self.asof_indicator)


def stands(storage: Storage, key: str, artifact: Artifact) -> bool:
    """Whether the file is there and is what was recorded.

    The version (S3's ETag) changes with every write, so an equal one means that the file has the bytes whose checksum
    was recorded. A file of another version, such as a restored copy, is read and its checksum compared. If the server
    refuses to show the file, it counts as missing, because some servers hide in this way that there is none.
    """
    try:
        entry = storage.stat(key)
        if entry.size != artifact.size:
            return False
        return entry.version == artifact.version or checksum(storage, key) == artifact.checksum
    except (Permanent, SourceChanged):
        return False


def checksum(storage: Storage, key: str) -> str:
    digest = hashlib.sha256()
    with storage.open(key) as reader:
        for piece in reader:
            digest.update(piece)
    return digest.hexdigest()
