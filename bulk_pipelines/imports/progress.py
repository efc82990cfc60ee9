"""What the database knows of an import: how far it is, and which files it has."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.rows import dict_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.formats.reading import frozen
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.plan.cut.ranges import Range
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect.dialect import Dialect
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.inspect.naming import FieldMapping
from bulk_pipelines.imports.request import RequestedFile
from bulk_pipelines.storage import addresses


@dataclass(frozen=True)
class Progress:
    counts: Counts
    batches: int = 0


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


def to_check(connection: Connection, job_key: str) -> tuple[Progress, int]:
    """Return how far the import is, and how many of its rejects are kept."""
    row = connection.execute(queries.text("import_progress", "counts_to_check"), {"job_key": job_key}).fetchone()
    if row is None:
        raise UnknownJob(job_key)
    kept, *counts, batches = row
    return Progress(Counts(*counts), batches), kept


def set_unprocessed(connection: Connection, job_id: int, count: int) -> None:
    values = {"job_id": job_id, "unprocessed": count}
    connection.execute(queries.text("import_progress", "set_unprocessed"), values)


def add_files(connection: Connection, job_id: int, files: Sequence[RequestedFile]) -> None:
    """Write down the files of an import that is being submitted. They are numbered from 1 on, in their order."""
    values = (
        {
            "job_id": job_id,
            "number": number,
            "source": file.name or addresses.redacted(file.source),
            "address": file.source,
            "version": file.version,
            "size": file.size,
            "format": file.format,
            "known_sha256": list(file.known_sha256),
            "wanted_layout": None if file.layout is None else json.dumps(layout_as_json(file.layout)),
        }
        for number, file in enumerate(files, 1)
    )
    with connection.cursor() as cursor:
        cursor.executemany(queries.text("import_progress", "add_file"), values)


def note_files(connection: Connection, job_id: int, files: Sequence[ImportFile]) -> None:
    """Write down what the plan made of the files, unless another plan of the job was quicker."""
    values = [
        {
            "job_id": job_id,
            "number": file.number,
            "landed": file.landed,
            "landed_version": file.landed_version,
            "size": file.size,
            "sha256": file.sha256,
            "layout": None if file.layout is None else json.dumps(layout_as_json(file.layout)),
            "base_line": file.base_line,
            "duplicate": file.duplicate,
            "note": file.note,
            "source": file.source,
            "address": file.requested.source,
            "archive": file.archive,
        }
        for file in files
    ]
    last = max(file.number for file in files)
    connection.execute(queries.text("import_progress", "forget_members"), {"job_id": job_id, "last": last})
    with connection.cursor() as cursor:
        members = [value for value in values if value["archive"] is not None]
        if members:
            cursor.executemany(queries.text("import_progress", "note_member"), members)
        cursor.executemany(queries.text("import_progress", "note_file"), values)


def files(connection: Connection, job_id: int) -> list[ImportFile]:
    """Return the files of an import in the order in which they count."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return [file_of(row) for row in cursor.execute(queries.text("import_progress", "files"), {"job_id": job_id})]


def file_of(row: dict[str, Any]) -> ImportFile:
    requested = RequestedFile(
        source=row.pop("address"),
        size=row.pop("wanted_size"),
        known_sha256=tuple(row.pop("known_sha256")),
        version=row.pop("wanted_version"),
        format=None if (told := row.pop("format")) is None else Format(told),
        layout=layout_from_json(row.pop("wanted_layout")),
    )
    layout = layout_from_json(row.pop("layout"))
    return ImportFile(requested=requested, layout=layout, **row)


def layout_as_json(layout: Layout) -> dict[str, Any]:
    mapping = None if layout.mapping is None else vars(layout.mapping)
    parts = {"header": layout.header.decode("latin-1"), "dialect": vars(layout.dialect), "mapping": mapping}
    return vars(layout) | {"columns": list(layout.columns)} | parts


def layout_from_json(value: Any) -> Layout | None:
    if value is None:
        return None
    dialect, mapping = value.get("dialect") or {}, value.get("mapping")
    return Layout(
        Format(value["format"]),
        tuple(value["columns"]),
        value["start"],
        value["first_line"],
        value["header"].encode("latin-1"),
        Dialect(**{name: frozen(each) for name, each in dialect.items()}),
        None if mapping is None else FieldMapping(**{name: frozen(each) for name, each in mapping.items()}),
        value.get("numbered", False),
    )


def ranges_of(value: Mapping[str, Any]) -> list[tuple[int, Range]]:
    """Return the ranges of an item, each with the number of its file."""
    return [(number, Range(start, stop, line)) for number, start, stop, line in value["ranges"]]
