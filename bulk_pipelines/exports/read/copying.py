"""Reading rows by COPY, as bytes that PostgreSQL itself wrote.

COPY is read through libpq's calls instead of psycopg's cursor: at a million rows a second the cursor's work for each
row is what takes the time (docs/benchmarks.md).
"""

import select
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from sqlalchemy import URL

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.exports.read.listening import PATIENCE
from bulk_pipelines.exports.read.snapshot import Plan, asked_of

CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole rows as bytes of the format."""

    data: bytes
    rows: int

    @property
    def nbytes(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class CopyOptions:
    text: str
    """The options of COPY for this format, beside those that every export has."""
    header: bool


@contextmanager
def reader(url: URL, plan: Plan, resource: str, options: CopyOptions) -> Iterator["CopyReader"]:
    """Open a reader: a connection of its own, which is closed at the end, so that a late request to cancel can hit no
    other query."""
    connection = pool.single(url.render_as_string(hide_password=False), application="bulk export")
    with closing(connection), asked_of(resource):
        connection.autocommit = False
        for statement in plan.joining():
            connection.execute(statement.encode())
        yield CopyReader(connection, plan, options)


@dataclass(frozen=True)
class CopyReader:
    connection: Connection
    plan: Plan
    options: CopyOptions

    def read(self, part: int) -> Generator[Chunk]:
        header = self.options.header and part == 0
        options = f"FORMAT csv, ENCODING 'UTF8', {self.options.text}{', HEADER' if header else ''}"
        statement = f"COPY ({self.plan.select_part(part)}) TO STDOUT ({options})"
        return copied(self.connection.pgconn, statement.encode(), skipped=1 if header else 0)

    def cancel(self) -> None:
        with suppress(psycopg.Error):
            self.connection.cancel_safe(timeout=PATIENCE)


def copied(server: PGconn, statement: bytes, skipped: int) -> Generator[Chunk]:
    """Yield what COPY sends, in chunks of whole rows. `skipped` of its lines are no rows. At the end the rows are
    compared with PostgreSQL's own count."""
    poll = select.poll()
    poll.register(server.socket, select.POLLIN)
    send(server, statement)
    begun = result(server, poll)
    if begun is None or begun.status != ExecStatus.COPY_OUT:
        raise failed(begun)
    take, data, rows, total = server.get_copy_data, bytearray(), -skipped, 0
    while True:
        size, line = take(1)
        if size > 0:
            data += line
            rows += 1
            if len(data) >= CHUNK:
                total += rows
                yield Chunk(bytes(data), rows)
                data, rows = bytearray(), 0
        elif size == 0:
            poll.poll()
            server.consume_input()
        else:
            break
    if data:
        total += rows
        yield Chunk(bytes(data), rows)
    ended = result(server, poll)
    if ended is None or ended.status != ExecStatus.COMMAND_OK:
        raise failed(ended)
    if ended.command_tuples != total:
        raise Unavailable(f"PostgreSQL sent {total} rows and counted {ended.command_tuples}")
    while result(server, poll) is not None:
        pass


def send(server: PGconn, statement: bytes) -> None:
    poll = select.poll()
    poll.register(server.socket, select.POLLIN | select.POLLOUT)
    server.send_query(statement)
    while server.flush():
        poll.poll()
        server.consume_input()


def result(server: PGconn, poll: select.poll) -> PGresult | None:
    while server.is_busy():
        poll.poll()
        server.consume_input()
    return server.get_result()


def failed(answer: PGresult | None) -> psycopg.Error:
    return psycopg.OperationalError("the connection was lost") if answer is None else error_from_result(answer)
