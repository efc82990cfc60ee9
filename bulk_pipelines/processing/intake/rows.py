"""One record of a file, as an item holds it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bulk_pipelines.counted import counted
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.outcomes import storable
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files.fields import alike
from bulk_pipelines.formats.reading import STANDARD, Reading
from bulk_pipelines.processing.request import Format

UNREADABLE = "_unreadable"
"""The field of an item's input that says why the record could not be read. No column may have this name."""
LINE = "_line"
RECORD = "_record"
LARGEST = 1024 * 1024
"""The longest record, in characters."""
RAW_KEPT = 1_000

Row = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """What is known of a file before it is read. `needs` are the columns that a source must have, in their order;
    `columns` are all columns that the recipe reads."""

    format: Format | None = None
    reading: Reading = STANDARD
    needs: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()
    for_others: bool = False
    """Whether this was told of other files, too, so that some options may be meant for them."""

    def fields_of(self, first: Sequence[str]) -> tuple[str, ...]:
        """Return the fields of a file without a header, whose first record has these values: those that somebody
        named, or else the columns that the recipe needs."""
        named = self.reading.fields or self.needs
        if len(named) == len(first):
            return named
        if self.reading.fields:
            raise InvalidInput("fields", f"names {counted(len(named), 'field')}, and the first record has {len(first)}")
        raise InvalidInput(
            "fields",
            f"the recipe needs {counted(len(named), 'column')}, and the first record has"
            f" {counted(len(first), 'field')}: name the fields with --fields NAME,NAME,…",
        )

    def fit(self, first: Sequence[str]) -> tuple[int, int]:
        """Return how well these values fit as the first line of a file: by how many names are known, or by the number
        of values if there is no header."""
        if self.reading.no_header:
            return int(len(first) == len(self.reading.fields or self.needs)), len(first)
        known = {*self.columns, *self.reading.ignore, *(field for _, field in self.reading.map)}
        return len({alike(each) for each in known} & {alike(each) for each in first}), len(first)


NOTHING_TOLD = Told()


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


def check_columns(columns: tuple[str, ...], field: str = "source") -> None:
    problems = []
    if any(not name for name in columns):
        problems.append("a column has no name")
    if len(set(columns)) < len(columns):
        problems.append("two columns have the same name")
    if any(name.startswith("_") and name in (UNREADABLE, LINE, RECORD) for name in columns):
        problems.append(f"{UNREADABLE}, {LINE} and {RECORD} cannot be names of columns")
    if problems:
        raise InvalidInput(field, f"the names of the columns are wrong: {'; '.join(problems)}")
    for name in columns:
        payload.text(field, name)
