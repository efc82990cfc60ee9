"""What one import is about: said once, when it is submitted, and the same for every batch of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources.declaration import Key, Resource


class Mode(StrEnum):
    INSERT = "insert"
    """Only new rows: of the records of one key the first in the file counts, and a row that exists stays as it is."""
    UPSERT = "upsert"
    """New rows and changes: of the records of one key the last in the file counts."""
    VALIDATE = "validate"
    """Nothing is loaded, and everything reported that inserting would."""


@dataclass(frozen=True)
class ImportContext:
    job_id: int
    resource: Resource
    mode: Mode
    content_hash: bytes
    """The SHA-256 of the landed file: ids of records that bring none are made of it."""
    submitted_at: datetime
    """Stands in for times that the file does not give."""
    base_line: int = 0
    """How far the lines of this file are moved behind those of the files before it."""
    match_on: Key | None = None
    """Upsert: the key that tells which row a record is about."""
    max_record_bytes: int = 16 * 1024 * 1024
    """A larger record is rejected."""


def matching_key(resource: Resource, column: str | None, columns: tuple[str, ...]) -> Key:
    """The key of an upsert: as told, else the id when the file has it, else the natural key."""
    if column is None:
        usable = [key for key in resource.keys if key.column in columns]
        if not usable:
            raise InvalidInput("match_on", f"the file has none of the keys of {resource.name}")
        return usable[0]
    for key in resource.keys:
        if key.column == column:
            if column not in columns:
                raise InvalidInput("match_on", f"the file has no column {column}")
            return key
    known = ", ".join(key.column for key in resource.keys)
    raise InvalidInput("match_on", f"{column!r} is not a key of {resource.name}: {known}")
