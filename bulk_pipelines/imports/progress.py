"""What the database knows of an import: how far it is, and which files it has."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.plan.layout import Format, Layout
from bulk_pipelines.imports.plan.ranges import Range

LONGEST_SHOWN = 1_000


@dataclass(frozen=True)
class Progress:
    counts: Counts
    batches: int = 0


@dataclass(frozen=True)
class ImportFile:
    """One of the files of an import. If the file was a duplicate or could not be used, `landed` is None and `note` says
    why."""

    number: int
    source: str
    landed: str | None
    size: int | None
    sha256: str | None
    layout: Layout | None
    base_line: int
    duplicate: bool
    note: str | None

    def as_outcome(self) -> dict[str, Any]:
        note = None if self.note is None else self.note[:LONGEST_SHOWN]
        source = self.source[:LONGEST_SHOWN]
        return {"source": source, "sha256": self.sha256, "duplicate": self.duplicate, "note": note}

    @property
    def left_out(self) -> bool:
        """Whether the file could not be used; a duplicate does not count as left out."""
        return self.note is not None and not self.duplicate


def begin(connection: Connection, job_id: int) -> None:
    connection.execute(queries.text("import_progress", "begin_counting"), {"job_id": job_id})


def add(connection: Connection, job_id: int, counts: Counts, *, batches: int = 0) -> None:
    """Add what the caller's transaction changed to the counts. Call this last in the transaction, so that lanes wait
    for each other only while it commits."""
    values = vars(counts) | {"job_id": job_id, "batches": batches}
    connection.execute(queries.text("import_progress", "count_records"), values)


def read(connection: Connection, job_id: int) -> Progress:
    row = connection.execute(queries.text("import_progress", "counts"), {"job_id": job_id}).fetchone()
    if row is None:
        return Progress(Counts())
    *counts, batches = row
    return Progress(Counts(*counts), batches)


def set_unprocessed(connection: Connection, job_id: int, count: int) -> None:
    values = {"job_id": job_id, "unprocessed": count}
    connection.execute(queries.text("import_progress", "set_unprocessed"), values)


def add_file(connection: Connection, job_id: int, file: ImportFile) -> None:
    layout = None if file.layout is None else json.dumps(layout_as_json(file.layout))
    values = vars(file) | {"job_id": job_id, "layout": layout}
    connection.execute(queries.text("import_progress", "add_file"), values)


def files(connection: Connection, job_id: int) -> list[ImportFile]:
    with connection.cursor(row_factory=class_row(ImportFile)) as cursor:
        found = cursor.execute(queries.text("import_progress", "files"), {"job_id": job_id}).fetchall()
    return [ImportFile(**(vars(each) | {"layout": layout_from_json(each.layout)})) for each in found]


def layout_as_json(layout: Layout) -> dict[str, Any]:
    return vars(layout) | {"columns": list(layout.columns), "header": layout.header.decode("latin-1")}


def layout_from_json(value: Any) -> Layout | None:
    if value is None:
        return None
    return Layout(
        Format(value["format"]),
        tuple(value["columns"]),
        value["start"],
        value["first_line"],
        value["header"].encode("latin-1"),
    )


def ranges_of(value: Mapping[str, Any]) -> list[tuple[int, Range]]:
    """Return the ranges of an item, each with the number of its file."""
    return [(number, Range(start, stop, line)) for number, start, stop, line in value["ranges"]]
