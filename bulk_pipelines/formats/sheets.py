"""What is remembered of a sheet that became rows: where its header was, and its first rows."""

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

KEPT = 30
KEY = b"bulk_sheet"


@dataclass(frozen=True)
class Sheet:
    """`fields` are the names of its columns, and `header` is the number of the row that names them, or 0 if there is
    none. `first` has the first rows that are not empty, each with its number."""

    name: str
    fields: tuple[str, ...]
    header: int
    first: tuple[tuple[int, tuple[str, ...]], ...]

    def as_metadata(self) -> dict[bytes, bytes]:
        return {KEY: json.dumps(vars(self)).encode()}


def told(schema: pa.Schema) -> Sheet | None:
    found: Any = (schema.metadata or {}).get(KEY)
    if found is None:
        return None
    value = json.loads(found)
    return Sheet(
        value["name"],
        tuple(value["fields"]),
        value["header"],
        tuple((number, tuple(cells)) for number, cells in value["first"]),
    )
