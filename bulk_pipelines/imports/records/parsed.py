"""What parsing a block gives: its columns as they stand in the file, and the faults of records that cannot be read."""

import codecs
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns.arrow import Column
from bulk_pipelines.formats.files.csv_ends import Positions
from bulk_pipelines.imports.records.blocks import Block

LONGEST_SHOWN = 200


@dataclass(frozen=True)
class Reason:
    """A reason why a record is rejected: a code of `resources.reasons`, the field at fault, what stood in it, and
    sometimes a detail in words."""

    code: str
    field: str | None = None
    value: str | None = None
    detail: str | None = None

    def as_json(self) -> dict[str, str]:
        parts = {"code": self.code, "field": self.field, "value": self.value, "detail": self.detail}
        return {name: part for name, part in parts.items() if part is not None}


@dataclass(frozen=True)
class Parsed:
    """A parsed block. `records` says which record of the block each row of the table is, and `lines` where that record
    stands. A record with faults may still be a row, if each fault is in one value; such a value is null in the table,
    or not in it."""

    table: pa.Table
    records: Positions
    lines: Positions
    faults: dict[int, list[Reason]] = field(default_factory=dict)
    texts: Mapping[str, Column] = field(default_factory=dict)
    """The texts of fields that the table holds in another form, for the expressions that read them."""

    @property
    def count(self) -> int:
        """The number of records that were read, good and bad."""
        return len(self.records) + len(self.faults.keys() - set(self.records.tolist() if self.faults else ()))


class Faults(defaultdict[int, list[Reason]]):
    """The reasons against records, by the numbers of these in the block."""

    def __init__(self) -> None:
        super().__init__(list)

    def add(self, record: int, reason: Reason) -> None:
        self[record].append(reason)


def shown(value: str | None) -> str | None:
    """Shorten a value to what a person needs to see, and replace what PostgreSQL's JSON cannot hold."""
    if value is None:
        return None
    short = value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "…"
    return short.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def oversized(block: Block, table: pa.Table) -> Parsed:
    faults = Faults()
    faults.add(0, Reason("record_too_large", detail=f"{block.size} bytes"))
    return Parsed(table, np.array([], dtype=np.int64), np.array([], dtype=np.int64), faults)


def undecodable(block: Block) -> dict[int, Reason]:
    """Find the records that are not UTF-8. The bytes are looked at once, however many faults there are."""
    if block.data.isascii():
        return {}
    found: dict[int, Reason] = {}
    view, start = memoryview(block.data), 0
    while start < len(view):
        try:
            codecs.utf_8_decode(view[start:], "strict", True)
            break
        except UnicodeDecodeError as error:
            record = int(np.searchsorted(block.spans.stops, start + error.start, side="right"))
            place = start + error.start - int(block.spans.starts[record])
            found[record] = Reason("invalid_encoding", detail=f"byte {place + 1} of the record")
            start = int(block.spans.stops[record])
    return found
