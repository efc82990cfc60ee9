"""Rejects that a person mends: each is taken apart into its fields, and what was mended runs again as an import of its
own."""

import csv
import hashlib
import io
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.afterwards import replaying, replays
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.load.rejects import Rejected
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect.dialect import Dialect
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.request import RequestedFile
from bulk_pipelines.storage.contract import Storage

MOST = 1_000
"""How many records are mended at once."""
LONGEST = 20_000
"""How many bytes a record may have that a person mends."""


@dataclass(frozen=True)
class Record:
    """A reject, taken apart."""

    line: int
    reasons: list[dict[str, Any]]
    layout: Layout
    """How it stood in the file."""
    fields: Mapping[str, str] | None
    """The fields by their columns, as text; None when the record cannot be taken apart."""
    text: str | None
    """The record as it stood in the file; None when it is too long, or no text, so that nobody can mend it here."""


Mended = Mapping[int, Mapping[str, str] | str]
"""What was mended, by the lines of the records: all fields of each, or its whole text."""


def page(connection: Connection, job: Job, after_line: int = 0, size: int = 50) -> list[Record]:
    """Return the next rejects behind a line."""
    files = read_files(connection, job)
    return [taken_apart(each, files) for each in rejects.page(connection, job.job_id, after_line, size)]


def read_files(connection: Connection, job: Job) -> list[ImportFile]:
    return [file for file in progress.files(connection, job.job_id) if file.layout is not None]


def taken_apart(each: Rejected, files: Sequence[ImportFile]) -> Record:
    found = files[bisect_left([file.base_line for file in files], each.line) - 1].layout
    assert found is not None, "only such files are given"
    layout, text = found.as_text, text_of(each)
    return Record(each.line, each.reasons, layout, None if text is None else fields_of(text, layout), text)


def text_of(each: Rejected) -> str | None:
    if each.raw_size is not None or not 0 < len(each.raw) <= LONGEST:
        return None
    try:
        return each.raw.decode()
    except UnicodeDecodeError:
        return None


def fields_of(text: str, layout: Layout) -> dict[str, str] | None:
    """Return the fields of a record; None if it is malformed."""
    if layout.format is Format.CSV:
        values = row_of(text, layout.dialect)
        whole = values is not None and len(values) == len(layout.fields)
        return dict(zip(layout.fields, values or (), strict=True)) if whole else None
    found = object_of(text)
    return None if found is None else {name: shown(value) for name, value in found.items()}


def options_of(dialect: Dialect) -> dict[str, Any]:
    """Return the dialect in the words of the module csv."""
    return {
        "delimiter": dialect.delimiter,
        "quotechar": dialect.quote or '"',
        "quoting": csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL,
        "escapechar": dialect.escape,
        "doublequote": dialect.escape is None,
        "strict": True,
    }


def row_of(text: str, dialect: Dialect) -> list[str] | None:
    """Return the fields of a record of CSV; None unless it is exactly one record."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), **options_of(dialect)))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def object_of(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def shown(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def mended_record(record: Record, given: Mapping[str, str] | str) -> dict[str, Any] | list[str]:
    """Return a record with what a person has written in place of what was wrong."""
    where = f"line {record.line}"
    if isinstance(given, str):
        kind, dialect = record.layout.format, record.layout.dialect
        found = row_of(given, dialect) if kind is Format.CSV else object_of(given)
        if found is None:
            raise InvalidInput(where, f"is still no record of {kind}")
        return found
    if record.fields is None or record.text is None:
        raise InvalidInput(where, "cannot be taken apart: mend its whole text")
    unknown = given.keys() - record.fields.keys()
    if unknown:
        raise InvalidInput(where, f"has no field {min(unknown)[:100]!r}")
    if record.layout.format is Format.CSV:
        return [given.get(name, value) for name, value in record.fields.items()]
    before = object_of(record.text) or {}
    return {
        name: value if given.get(name, shown(value)) == shown(value) else parsed(given[name], value)
        for name, value in before.items()
    }


def parsed(text: str, before: Any) -> Any:
    """Return what a person wrote in place of a value of JSON: text for text, JSON for anything else if it is some."""
    if isinstance(before, str):
        return text
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text


def submit(pool: Engine, job: Job, mended: Mended, storage: Storage, by: Actor) -> Job:
    """Run mended records again, as an import of their own that belongs to the owner of the first. The same records,
    mended in the same way, are one import, however often they are sent."""
    if not job.finished:
        raise Conflict(f"job {job.job_key} is {job.status}: its rejects are not complete yet")
    if not 1 <= len(mended) <= MOST:
        raise InvalidInput("records", f"must be between 1 and {MOST:,}, not {len(mended):,}")
    with transaction(pool) as connection:
        files = read_files(connection, job)
        records = [found(connection, job, line, files) for line in sorted(mended)]
    parts: list[tuple[Layout, list[Any]]] = []
    for record in records:
        if not parts or not parts[-1][0].written_like(record.layout):
            parts.append((record.layout, []))
        parts[-1][1].append(mended_record(record, mended[record.line]))
    contents = [(layout, content(layout, rows)) for layout, rows in parts]
    digest = hashlib.sha256(b"\0".join(each for _, each in contents)).hexdigest()
    written = [
        write(storage, f"{job.job_key}-rejects.{digest[:16]}.{number}.{layout.format}", layout, each)
        for number, (layout, each) in enumerate(contents, 1)
    ]
    with transaction(pool) as connection:
        key = f"mended {job.job_key} {digest}"
        return replays.replay_mended(connection, job.job_key, written, by, key).job


def found(connection: Connection, job: Job, line: int, files: Sequence[ImportFile]) -> Record:
    there = rejects.page(connection, job.job_id, line - 1, 1)
    if not there or there[0].line != line:
        raise Conflict(f"line {line} is no reject of job {job.job_key} any more")
    return taken_apart(there[0], files)


def content(layout: Layout, rows: Sequence[Any]) -> bytes:
    """Return a file with these records, written as those of the layout are."""
    if layout.format is not Format.CSV:
        raws = [json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") for row in rows]
    else:
        raws = [raw_of(row, layout.dialect) for row in rows]
    return b"".join(replaying.pieces(layout, iter(raws)))


def raw_of(row: Sequence[str], dialect: Dialect) -> bytes:
    text = io.StringIO()
    try:
        csv.writer(text, lineterminator="", **options_of(dialect)).writerow(row)
    except csv.Error as error:
        raise InvalidInput("records", f"cannot be written as the file was: {error}") from None
    return text.getvalue().encode("utf-8", "surrogatepass")


def write(storage: Storage, name: str, layout: Layout, data: bytes) -> RequestedFile:
    with storage.publish(name) as sink:
        sink.write(data)
    return RequestedFile(storage.url_of(name), len(data), format=layout.format, layout=layout)
