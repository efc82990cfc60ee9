"""The data of the files: CSV that PostgreSQL writes itself, from one query for many inputs or a stream for a large one.

The query is written for one input, with `:index_key`, `:effective_date` and `:asof_indicator` in it. For many inputs it
stands in a LATERAL join, so that it is planned and run as written, once for each of them, in one statement.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.distribution.request import Input
from bulk_pipelines.errors import InvalidInput, Permanent, Transient

MOST_ROWS = 5_000
"""Of an input whose data is read together with others'; one with more is streamed."""
CHUNK = 1 << 18

TYPES = {"index_key": "text", "effective_date": "date", "asof_indicator": "text"}
NAMES = "|".join(TYPES)
PARAMETER = re.compile(rf"(?<![:\w]):({NAMES})\b")
COPY_OPTIONS = "(FORMAT csv, ENCODING 'UTF8')"
WANTED = """unnest(
    %(positions)s::int[], %(index_keys)s::text[], %(effective_dates)s::date[], %(asof_indicators)s::text[]
) AS wanted (position, index_key, effective_date, asof_indicator)"""


@dataclass(frozen=True, slots=True)
class Content:
    """A whole file, and how many rows are in it under the header."""

    data: bytes
    rows: int
    read_at: datetime
    """By the database's clock: from then on nothing in the data is missing."""


@dataclass(frozen=True, slots=True)
class Chunk:
    data: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A file in pieces, the header with the first row."""

    read_at: datetime
    chunks: Iterator[Chunk]


@dataclass(frozen=True)
class Query:
    """A SELECT for one input, its parameters as psycopg names them."""

    text: str

    def joined(self) -> str:
        """For many inputs, `wanted` and their `data`."""
        named = re.sub(rf"%\(({NAMES})\)s", r"wanted.\1", self.text)
        return f"{WANTED}\nCROSS JOIN LATERAL (SELECT * FROM (\n{named}\n) AS asked LIMIT {MOST_ROWS + 1}) AS data"

    def alone(self) -> str:
        return re.sub(rf"%\(({NAMES})\)s", lambda found: f"{found[0]}::{TYPES[found[1]]}", self.text)


def query_of(file: str) -> Query:
    """The query in a file; the default one without."""
    if not file:
        return Query(ended(queries.text("distribution", "index_file")))
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("BULK_DISTRIBUTION_QUERY", f"{file} cannot be read: {error}") from None
    # A percent sign of its own, as in LIKE, must not look like a parameter.
    named = PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))
    missing = [f":{name}" for name in TYPES if f"%({name})s" not in named]
    if missing:
        raise InvalidInput("BULK_DISTRIBUTION_QUERY", f"{file} does not ask for {', '.join(missing)}")
    return Query(ended(named))


def ended(text: str) -> str:
    return text.strip().removesuffix(";")


def read(pool: Engine, query: Query, wanted: Sequence[Input]) -> list[Content | None]:
    """The files of many inputs, by one statement; None for one with too many rows to be read together with others."""
    values = {
        "positions": list(range(len(wanted))),
        "index_keys": [each.index_key for each in wanted],
        "effective_dates": [each.effective_date for each in wanted],
        "asof_indicators": [each.asof for each in wanted],
    }
    lines: list[list[bytes]] = [[] for _ in wanted]
    with asked(), transaction(pool) as connection:
        read_at = moment(connection)
        header = header_of(connection, f"SELECT data.* FROM {query.joined()} LIMIT 0", values)
        copy_rows = f"COPY (SELECT wanted.position, data.* FROM {query.joined()}) TO STDOUT {COPY_OPTIONS}"
        with connection.cursor() as cursor, cursor.copy(copy_rows, values) as copy:
            for row in copy:
                position, _, line = bytes(row).partition(b",")
                lines[int(position)].append(line)
    return [
        None if len(each) > MOST_ROWS else Content(header + b"".join(each) if each else b"", len(each), read_at)
        for each in lines
    ]


@contextmanager
def stream(pool: Engine, query: Query, wanted: Input) -> Iterator[Stream]:
    """The file of one input in constant memory, whatever its size."""
    values = {
        "index_key": wanted.index_key,
        "effective_date": wanted.effective_date,
        "asof_indicator": wanted.asof,
    }
    text = query.alone()
    with asked(), transaction(pool) as connection:
        read_at = moment(connection)
        header = header_of(connection, f"SELECT * FROM (\n{text}\n) AS data LIMIT 0", values)
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY (\n{text}\n) TO STDOUT {COPY_OPTIONS}", values) as copy,
        ):
            yield Stream(read_at, chunks(header, copy))


def chunks(header: bytes, rows: psycopg.Copy) -> Iterator[Chunk]:
    data, count = bytearray(header), 0
    for row in rows:
        data += row
        count += 1
        if len(data) >= CHUNK:
            yield Chunk(bytes(data), count)
            data, count = bytearray(), 0
    if count:
        yield Chunk(bytes(data), count)


def moment(connection: Connection) -> datetime:
    row = connection.execute("SELECT now()").fetchone()
    assert row is not None, "a time always answers"
    found: datetime = row[0]
    return found


def header_of(connection: Connection, statement: str, values: dict[str, Any]) -> bytes:
    """The names of the columns as they are now. Never prepared: the tables behind the query may change."""
    described = connection.execute(statement, values, prepare=False).description
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([column.name for column in described or ()])
    return line.getvalue().encode()


@contextmanager
def asked() -> Iterator[None]:
    """PostgreSQL's refusals in the engine's words: an outage passes, a wrong query or value does not."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise Transient(f"the data cannot be read now: {first_line(error)}") from error
    except psycopg.Error as error:
        raise Permanent(f"the query for the data fails: {first_line(error)}") from error


def first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
