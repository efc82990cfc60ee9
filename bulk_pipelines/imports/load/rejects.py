"""Rejects: records that were not loaded, kept whole with all their reasons, in the order of the file."""

import base64
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
from psycopg import sql

from bulk_pipelines.columns import binary_copy
from bulk_pipelines.counted import counted
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.errors import Gone
from bulk_pipelines.imports.records.parsed import Reason
from bulk_pipelines.imports.validate.validation import Reject

PAGE = 1_000
PAGE_BYTES = 4 * 1024 * 1024
JSONB = b"\x01"


@dataclass(frozen=True)
class Rejected:
    """A reject as the database keeps it. `raw_size`, the size of the record, is set only if just its beginning was
    kept."""

    line: int
    raw: bytes
    raw_size: int | None
    reasons: list[dict[str, Any]]


class Download(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"


def store(connection: Connection, job_id: int, rejects: list[Reject]) -> None:
    if not rejects:
        return
    rows = binary_copy.encode(
        {
            "job_id": pa.array([job_id] * len(rejects), pa.int64()),
            "line": pa.array([each.line for each in rejects], pa.int64()),
            "raw": pa.array([each.raw for each in rejects], pa.binary()),
            "raw_size": pa.array([each.raw_size for each in rejects], pa.int64()),
            "reasons": pa.array([JSONB + as_json(each.reasons).encode() for each in rejects], pa.binary()),
        }
    )
    binary_copy.copy(connection, sql.Identifier("rejected_row"), rows)


def as_json(reasons: list[Reason]) -> str:
    return json.dumps([reason.as_json() for reason in reasons], ensure_ascii=False)


def page(connection: Connection, job_id: int, after_line: int = 0, limit: int = PAGE) -> list[Rejected]:
    """Return the next rejects behind a line. There are fewer than asked for if they are large."""
    found = connection.execute(
        queries.text("imports", "rejected_rows"),
        {"job_id": job_id, "after_line": after_line, "limit": limit, "bytes": PAGE_BYTES},
    )
    return [Rejected(line, raw or b"", raw_size, reasons) for line, raw, raw_size, reasons in found]


def follow(connection: Connection, job_id: int, after_line: int) -> bool:
    """Whether there are rejects behind a line."""
    values = {"job_id": job_id, "after_line": after_line}
    return connection.execute(queries.text("imports", "rejected_row_behind"), values).fetchone() is not None


def count(connection: Connection, job_id: int) -> int:
    row = connection.execute(queries.text("imports", "count_rejected_rows"), {"job_id": job_id}).fetchone()
    return int(row[0]) if row else 0


def refuse_lacking(connection: Connection, job_id: int) -> None:
    """Raise `Gone` if retention has removed rejects of the import."""
    row = connection.execute(queries.text("imports", "lacking_rejects"), {"job_id": job_id}).fetchone()
    if row is not None and row[0] > 0:
        raise Gone(f"retention has removed {counted(row[0], 'reject')} of this import: see BULK_KEEP_REJECTS_DAYS")


def every(connection: Connection, job_id: int) -> Iterator[Rejected]:
    """Yield all rejects in the order of the file, with only one page of them in memory."""
    found = page(connection, job_id)
    while found:
        yield from found
        found = page(connection, job_id, found[-1].line)


def download(begin: Begin, job_id: int, kind: Download) -> Iterator[bytes]:
    """Return all rejects as a file, in pieces. Each piece is read in a transaction of its own, so that whoever reads
    slowly holds no connection. A file from which retention has taken rejects is broken off."""
    with begin() as connection:
        refuse_lacking(connection, job_id)
    return pieces(begin, job_id, kind)


def pieces(begin: Begin, job_id: int, kind: Download) -> Iterator[bytes]:
    if kind is Download.CSV:
        yield csv_line(["line", "codes", "record", "reasons"])
    after_line = 0
    while True:
        with begin() as connection:
            found = page(connection, job_id, after_line)
            if not found:
                return refuse_lacking(connection, job_id)
        yield b"".join(csv_row(each) if kind is Download.CSV else ndjson_row(each) for each in found)
        after_line = found[-1].line


def csv_row(each: Rejected) -> bytes:
    codes = " ".join(dict.fromkeys(reason["code"] for reason in each.reasons))
    reasons = json.dumps(each.reasons, ensure_ascii=False)
    return csv_line([str(each.line), codes, each.raw.decode("utf-8", "backslashreplace"), reasons])


def csv_line(fields: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(fields)
    return text.getvalue().encode()


def ndjson_row(each: Rejected) -> bytes:
    row: dict[str, Any] = {"line": each.line}
    try:
        row["record"] = each.raw.decode()
    except UnicodeDecodeError:
        row["record"] = each.raw.decode("utf-8", "backslashreplace")
        row["record_base64"] = base64.b64encode(each.raw).decode()
    if each.raw_size is not None:
        row["record_bytes"] = each.raw_size
    return json.dumps(row | {"reasons": each.reasons}, ensure_ascii=False).encode() + b"\n"
