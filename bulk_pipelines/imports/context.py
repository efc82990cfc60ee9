"""What every batch of an import must know of it, and the key that an upsert goes by."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import pyarrow as pa

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files.values import Made
from bulk_pipelines.resources.declaration import Key, Resource

Evaluate = Callable[[pa.Table, tuple[tuple[str, str], ...], tuple[str, ...]], Made]
"""A function that makes columns of the fields of a block by expressions, each with the name of its column. The columns
that are named last get a decimal comma where an expression gives a number."""


class Mode(StrEnum):
    INSERT = "insert"
    """The import adds new rows only. Of several records with one key the first in the file counts, and a row that
    exists stays as it is."""
    UPSERT = "upsert"
    """The import adds new rows and changes existing ones. Of several records with one key the last in the file
    counts."""
    VALIDATE = "validate"
    """The import loads nothing, and reports everything that inserting would report."""


@dataclass(frozen=True)
class ImportContext:
    job_id: int
    resource: Resource
    mode: Mode
    content_hash: bytes
    """The SHA-256 of the landed file. Records without an id get one that is made from it."""
    submitted_at: datetime
    """When the import was submitted: this stands in for times that the file does not give."""
    base_line: int = 0
    """How far the lines of this file are moved behind those of the files before it."""
    match_on: Key | None = None
    """The key that tells which row a record is about; only upserts have one."""
    max_record_bytes: int = 16 * 1024 * 1024
    """The largest record that is accepted; a larger one is rejected."""
    evaluate: Evaluate | None = None
    """Evaluates the expressions that make columns; it is needed only if there are any."""


def matching_key(resource: Resource, wanted: str | None, columns: tuple[str, ...]) -> Key:
    """Return the key that an upsert goes by: the one of the columns that were asked for; if none was, the id if the
    file has it, else the natural key."""
    if not resource.keys:
        raise InvalidInput("mode", f"{resource.name} has no key that an upsert could match on: it can only be inserted")
    if wanted is None:
        usable = [key for key in resource.keys if set(key.columns) <= set(columns)]
        if not usable:
            raise InvalidInput("match_on", f"the file has none of the keys of {resource.name}")
        return usable[0]
    named = ",".join(name.strip() for name in wanted.split(","))
    for key in resource.keys:
        if named == key.name:
            for name in key.columns:
                if name not in columns:
                    raise InvalidInput("match_on", f"the file has no column {name}")
            return key
    known = ", ".join(key.name for key in resource.keys)
    raise InvalidInput("match_on", f"{wanted!r} is not a key of {resource.name}: {known}")
