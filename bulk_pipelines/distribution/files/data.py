"""The data of the files: CSV that PostgreSQL writes itself, from one query for many inputs or a stream for a large one.

The query is written for one input, with `:index_key`, `:effective_date` and `:asof_indicator` in it. For many inputs it
stands in a LATERAL join, so that it is planned once and run as written for each of them, in one statement.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.distribution.files import placeholders
from bulk_pipelines.distribution.request import Input
from bulk_pipelines.errors import InvalidInput, Permanent, Transient
from bulk_pipelines.settings import shipped

MOST_ROWS = 5_000
"""The most rows of an input that is read together with others. An input with more rows is streamed."""
CHUNK = 1 << 18

TYPES = {"index_key": "text", "effective_date": "date", "asof_indicator": "text"}
DEFAULT = shipped("sql/index_file.sql")
INPUT = "input_of_this_file"
"""The name under which a query finds its input. Nobody's query has this name by chance."""
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
    """When the data was read, by the database's clock. The data has all that was committed by then."""


@dataclass(frozen=True, slots=True)
class Chunk:
    data: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A file in pieces. The header comes with the first row."""

    read_at: datetime
    chunks: Iterator[Chunk]


@dataclass(frozen=True)
class Query:
    """A SELECT for one input, which it finds as the one row of a common table expression.

    So the parameters are bound in the same way whether one input is asked for or many. They also are values of the
    query's own: an aggregate over a column of an outer query would be evaluated by that outer query.
    """

    text: str

    def asked(self, values: str) -> str:
        return f"WITH {INPUT} AS NOT MATERIALIZED (SELECT {values}) SELECT * FROM (\n{self.text}\n) AS asked"

    def joined(self) -> str:
        """Return the FROM clause for many inputs: each is a row of `wanted`, joined to its rows, `data`."""
        each = self.asked(", ".join(f"wanted.{name}" for name in TYPES))
        return f"{WANTED}\nCROSS JOIN LATERAL ({each} LIMIT {MOST_ROWS + 1}) AS data"

    def alone(self) -> str:
        return self.asked(", ".join(f"%({name})s::{kind} AS {name}" for name, kind in TYPES.items()))


def query_of(file: str) -> Query:
    """Return the query that the file holds; without a file, the one that comes with the program."""
    try:
        text = (Path(file).expanduser() if file else DEFAULT).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(placeholders.FIELD, f"{file} cannot be read: {error}") from None
    text, used = placeholders.replaced(placeholders.statement(text), TYPES, parameter)
    missing = [f":{name}" for name in TYPES if name not in used]
    if missing:
        raise InvalidInput(placeholders.FIELD, f"{file} does not ask for {', '.join(missing)}")
    return Query(text)


def parameter(name: str) -> str:
    """Return what stands in a query for a parameter. The cast changes no type; but without it `IN (…)` would take the
    text for a subquery, and not for a value."""
    return f"(SELECT {name} FROM {INPUT})::{TYPES[name]}"


def read(pool: Engine, query: Query, wanted: Sequence[Input]) -> list[Content | None]:
    """Read the files of many inputs by one statement. The file of an input with too many rows for that is None."""
    values = together(wanted)
    lines: list[list[bytes]] = [[] for _ in wanted]
    with asked(), transaction(pool) as connection:
        namespaces.turn_to_theirs(connection)
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
    """Read the file of one input in constant memory, whatever its size."""
    text, values = query.alone(), by_itself(wanted)
    with asked(), transaction(pool) as connection:
        namespaces.turn_to_theirs(connection)
        read_at = moment(connection)
        header = header_of(connection, f"{text} LIMIT 0", values)
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


def columns(pool: Engine, query: Query) -> list[str]:
    """Return the names of a file's columns. The query is planned for one input and for many, and not run."""
    example = Input("", date(2000, 1, 1), "")
    with asked(), transaction(pool) as connection:
        namespaces.turn_to_theirs(connection)
        names_of(connection, f"SELECT data.* FROM {query.joined()} LIMIT 0", together([example]))
        return names_of(connection, f"{query.alone()} LIMIT 0", by_itself(example))


def together(wanted: Sequence[Input]) -> dict[str, Any]:
    return {
        "positions": list(range(len(wanted))),
        "index_keys": [each.index_key for each in wanted],
        "effective_dates": [each.effective_date for each in wanted],
        "asof_indicators": [each.asof for each in wanted],
    }


def by_itself(wanted: Input) -> dict[str, Any]:
    return {"index_key": wanted.index_key, "effective_date": wanted.effective_date, "asof_indicator": wanted.asof}


def names_of(connection: Connection, statement: str, values: dict[str, Any]) -> list[str]:
    """Return the columns as they are now. The statement is never prepared, because the tables behind it may change."""
    return [column.name for column in connection.execute(statement, values, prepare=False).description or ()]


def header_of(connection: Connection, statement: str, values: dict[str, Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(names_of(connection, statement, values))
    return line.getvalue().encode()


@contextmanager
def asked() -> Iterator[None]:
    """Turn PostgreSQL's errors into the engine's: an outage passes, a wrong query or value does not."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise Transient(f"the data cannot be read now: {first_line(error)}") from error
    except psycopg.Error as error:
        raise Permanent(f"the query for the data fails: {first_line(error)}") from error


def first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
