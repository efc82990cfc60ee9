"""Reading rows as Arrow record batches, for the formats that have types of their own. ADBC makes the batches from
COPY's binary form."""

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.conninfo import make_conninfo
from sqlalchemy import URL

from bulk_pipelines.columns import uuids
from bulk_pipelines.database import session
from bulk_pipelines.errors import InvalidInput, Unavailable
from bulk_pipelines.exports.read.snapshot import Plan, refuse_lasting

BATCH_OPTION = "adbc.postgresql.batch_size_hint_bytes"

TIMEOUT = 10
"""Seconds to wait for the server's answer to a new connection."""

# 4713 BC, PostgreSQL's first moment. ADBC counts from 1970 where PostgreSQL counts from 2000, and what overflows by
# that, infinity and what is after 294247-01-10 04:00:54.775807, comes out before it.
FIRST_MOMENT = -210_866_803_200_000_000

FIRST_DAY = -2_440_588
"""PostgreSQL's first date, in days since 1970: ADBC's infinite dates come out before it."""

PREFACE = re.compile(r"^.*?(ERROR|FATAL):\s+", re.DOTALL)


@contextmanager
def reader(url: URL, plan: Plan, resource: str, batch: int) -> Iterator["ArrowReader"]:
    """Open a reader: a connection of its own, which reads batches of about `batch` bytes."""
    with asked_of(resource, url), connected(url) as connection, connection.cursor() as cursor:
        for statement in plan.joining():
            cursor.execute(statement)
        cursor.adbc_statement.set_options(**{BATCH_OPTION: str(batch)})
        yield ArrowReader(cursor, plan)


@dataclass(frozen=True)
class ArrowReader:
    cursor: Any
    plan: Plan

    def read(self, part: int) -> Generator[pa.RecordBatch]:
        self.cursor.execute(self.plan.select_part(part))
        with self.cursor.fetch_record_batch() as batches:
            yield from batches

    def cancel(self) -> None:
        with suppress(adbc.Error, OSError):
            self.cursor.adbc_cancel()


@contextmanager
def connected(url: URL) -> Iterator[Any]:
    """Open a session of ADBC and set it up as those of the pool are. ADBC takes every text for UTF-8, whatever the
    session's encoding is."""
    address = make_conninfo(**session.arguments(url, "bulk export", TIMEOUT))
    # Settings that are made within a transaction would go when it is rolled back.
    with adbc.connect(address, autocommit=True) as connection:
        with connection.cursor() as cursor:
            version = session.refuse_old(int(connection.adbc_get_info()["vendor_version"]))
            cursor.execute(session.statement(session.settings(session.named(url)), version))
            cursor.fetchall()
        connection.adbc_connection.set_autocommit(False)
        yield connection


def declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to the declared types. Only ids, and the names of list members, take time.

    The thread that writes calls this, because it has the time: an export waits for PostgreSQL and the reading thread.
    """
    columns = [in_type(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    for column, field in zip(columns, schema, strict=True):
        is_date = pa.types.is_date32(field.type)
        if is_date or pa.types.is_timestamp(field.type):
            first = pc.min(column.cast(pa.int32() if is_date else pa.int64())).as_py()
            if first is not None and first < (FIRST_DAY if is_date else FIRST_MOMENT):
                raise InvalidInput(
                    field.name,
                    "a row holds infinity, or a time after 294247-01-10, which only csv, ndjson and json can write: "
                    "use one, or a filter",
                )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def in_type(column: Any, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind) and uuids.is_identifier(column.type):
        return uuids.to_text(column)
    return column.cast(kind)


@contextmanager
def asked_of(resource: str, url: URL) -> Iterator[None]:
    """Turn what ADBC raises into one line. It raises its own errors, and OSError for whatever happens while rows are
    coming."""
    try:
        yield
    except (adbc.Error, OSError) as error:
        # ADBC adds its own words before PostgreSQL's, and the whole statement after them.
        reason = " ".join(PREFACE.sub("", str(error)).partition("Query was:")[0].split())
        if url.password:
            reason = reason.replace(str(url.password), "***")
        refuse_lasting(resource, getattr(error, "sqlstate", None), reason)
        raise Unavailable(f"the {resource} cannot be exported: {reason}") from error
    except pa.ArrowInvalid as error:
        # What came is no row. A pooler whose server is lost says so in the middle of one, and ADBC reads on.
        raise Unavailable(f"the {resource} cannot be exported: PostgreSQL's answer broke off within a row") from error
