"""Streams: the first bytes come early, memory stays bounded, and a reader who leaves leaves nothing running."""

import itertools
import os
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.errors import Cancelled, Unavailable
from bulk_pipelines.exports.read import batches, readers
from bulk_pipelines.exports.read.counting import Counting
from bulk_pipelines.exports.read.readers import in_order
from bulk_pipelines.exports.read.snapshot import planned
from bulk_pipelines.exports.request import ExportRequest, Format, Order
from bulk_pipelines.exports.streaming import Tally, arrow_read, never, stream
from bulk_pipelines.formats import arrow, parquet, xlsx
from bulk_pipelines_tests.scenes.export_files import exporting, insert_users, watching
from bulk_pipelines_tests.scenes.exports import slow_down
from bulk_pipelines_tests.scenes.waiting import until

ROWS = 100_000


@pytest.fixture
def many(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """More rows than are held ready, in any format."""
    monkeypatch.setattr(readers, "ROOM", 1 << 20)
    monkeypatch.setattr(parquet, "BATCH", 1 << 20)
    monkeypatch.setattr(xlsx, "BATCH", 1 << 20)
    monkeypatch.setattr(arrow, "BATCH", 1 << 20)
    insert_users(engine, ROWS)
    return engine


def nobody_exports(connection: psycopg.Connection[Any]) -> None:
    """Check that nobody exports any more. A connection that was closed is gone from PostgreSQL a moment later."""
    until(lambda: exporting(connection) == 0, "no connection of an export is left", seconds=10)
    assert not [thread for thread in threading.enumerate() if thread.name == "export"]


def test_first_bytes_come_before_the_query_is_done_and_closing_ends_it(many: Engine) -> None:
    for format_ in Format:
        with watching(many) as connection:
            pieces = stream(many, ExportRequest("users", format_))
            assert next(pieces)
            assert exporting(connection, "AND state = 'active'") >= 1, format_
            pieces.close()
            nobody_exports(connection)


def test_a_slow_reader_holds_the_query_back(many: Engine) -> None:
    tally = Tally()
    pieces = stream(many, ExportRequest("users"), tally=tally)
    next(pieces)
    with watching(many) as connection:
        waiting = "AND wait_event = 'ClientWrite'"
        until(lambda: exporting(connection, waiting) == 1, "PostgreSQL waits for its reader")
    assert tally.rows < ROWS / 10
    assert sum(len(piece) for piece in pieces) > tally.bytes / 2
    assert tally.rows == ROWS


def test_whoever_calls_it_off_is_heard(many: Engine) -> None:
    for format_ in (Format.CSV, Format.PARQUET):
        asked = itertools.count()
        with watching(many) as connection:
            with pytest.raises(Cancelled):
                list(stream(many, ExportRequest("users", format_), cancelled=lambda asked=asked: next(asked) > 5))  # type: ignore[misc]
            nobody_exports(connection)


def test_it_can_be_called_off_while_postgresql_still_sorts(many: Engine) -> None:
    """A view that sleeps stands for a query that thinks for a long time."""
    with pool.transaction(many) as connection:
        connection.execute("ALTER TABLE users RENAME TO real_users")
        connection.execute("CREATE VIEW public.users AS SELECT real_users.* FROM real_users, pg_sleep(60)")
    for format_ in (Format.CSV, Format.XLSX):
        with watching(many) as connection:

            def thinking() -> bool:
                return exporting(connection, "AND wait_event = 'PgSleep'") > 0

            with pytest.raises(Cancelled):
                list(stream(many, ExportRequest("users", format_, order=(Order("name"),)), cancelled=thinking))
            nobody_exports(connection)


@pytest.mark.parametrize("format_", Format)
def test_a_lost_connection_is_one_clear_error(many: Engine, format_: Format) -> None:
    if format_ is Format.XLSX and os.environ.get("SESSIONS") == "pgbouncer":
        pytest.skip("PgBouncer reads ahead of its client, and the first piece of a sheet needs nearly all rows")
    with watching(many) as connection:
        pieces = stream(many, ExportRequest("users", format_))
        next(pieces)
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'bulk export' AND datname = current_database()"
        )
        with pytest.raises(Unavailable, match="users cannot be exported: ") as caught:
            list(pieces)
        assert "\n" not in str(caught.value)
        nobody_exports(connection)


@pytest.mark.parametrize("format_", [Format.PARQUET, Format.XLSX])
def test_the_count_of_the_rows_is_called_off_too(engine: Engine, format_: Format) -> None:
    insert_users(engine, 20_000)
    with watching(engine) as connection:
        slow_down(connection)
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
        counting = f"{query} AND query LIKE '%count(*)%FROM users%' AND pid <> pg_backend_pid()"

        def is_counting() -> bool:
            return connection.execute(counting.encode()).fetchone() == (1,)

        with pytest.raises(Cancelled):
            list(stream(engine, ExportRequest("users", format_), cancelled=is_counting))
        assert connection.execute(query.encode()).fetchone() == (1,), "nobody is at work but who asks this"


def test_rows_that_are_not_as_many_as_postgresql_counts_are_an_error(engine: Engine) -> None:
    insert_users(engine, 100)
    request = ExportRequest("users", Format.PARQUET)

    def without_one(
        reader: Callable[[], AbstractContextManager[batches.ArrowReader]], joined: Callable[[], None]
    ) -> Generator[pa.RecordBatch]:
        for batch in in_order(reader, readers=1, parts=1, joined=joined, cancelled=never):
            yield batch.slice(1)

    with ExitStack() as until_joined:
        plan, connection = until_joined.enter_context(planned(engine, request, 1, 0, never))
        counting = Counting(connection, plan, request.resource, until_joined.close)
        with pytest.raises(Unavailable, match="PostgreSQL sent 99 rows and counted 100"):
            list(arrow_read(engine, request, plan, without_one, Tally(), counting))
