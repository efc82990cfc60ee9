"""One record of a file, as an item holds it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.outcomes import storable
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.request import Format

UNREADABLE = "_unreadable"
"""The field of an item's input that says why the record could not be read. No column may have this name."""
LINE = "_line"
RECORD = "_record"
LARGEST = 1024 * 1024
"""The longest record, in characters."""
RAW_KEPT = 1_000

Row = dict[str, Any]


@dataclass
class Records:
    """The records of a file. `columns` are those of its header, or of its first record."""

    format: Format
    rows: Iterator[Row]
    columns: tuple[str, ...] = ()
    peeked: list[Row] = field(default_factory=list)

    def __iter__(self) -> Iterator[Row]:
        yield from self.peeked
        yield from self.rows


def checked_row(value: Any, number: int, raw: str = "") -> Row:
    if not isinstance(value, dict):
        return unreadable(f"{type(value).__name__} instead of an object", number, raw)
    if UNREADABLE in value:
        return unreadable(f"it has a field {UNREADABLE}", number, raw)
    return value


def unreadable(reason: str, line: int, raw: str = "") -> Row:
    kept = storable(raw[:RAW_KEPT].encode("utf-8", "backslashreplace").decode())
    return {UNREADABLE: reason, LINE: line, RECORD: kept}


def check_columns(columns: tuple[str, ...]) -> None:
    problems = []
    if any(not name for name in columns):
        problems.append("a column has no name")
    if len(set(columns)) < len(columns):
        problems.append("two columns have the same name")
    if any(name.startswith("_") and name in (UNREADABLE, LINE, RECORD) for name in columns):
        problems.append(f"{UNREADABLE}, {LINE} and {RECORD} are no names of columns")
    if problems:
        raise InvalidInput("source", f"the names of the columns are wrong: {'; '.join(problems)}")
    for name in columns:
        payload.text("source", name)
