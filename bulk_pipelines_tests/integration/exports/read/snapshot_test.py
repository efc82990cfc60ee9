"""One export shows one moment, however many connections read it and whatever others write meanwhile."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import holding, pool
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.exports.filters import parse
from bulk_pipelines.exports.read import readers, snapshot
from bulk_pipelines.exports.request import ExportRequest, Format, Order
from bulk_pipelines.exports.streaming import Tally, never, read_by, stream
from bulk_pipelines_tests.scenes.export_files import (
    exported,
    exported_by,
    exporting,
    insert_users,
    read,
    stored,
    watching,
)
from bulk_pipelines_tests.scenes.waiting import until

PAIRS = 1_000


def cut_small(monkeypatch: pytest.MonkeyPatch, blocks: int = 8) -> None:
    """Let small tables be read in parts, too."""
    monkeypatch.setattr(snapshot, "PART", blocks * 8192)
    monkeypatch.setattr(snapshot, "ROWS_WORTH_CUTTING", 0)


@contextmanager
def changing(engine: Engine) -> Iterator[list[int]]:
    """Another connection that moves the admin of each pair and replaces rows, one consistent transaction at a time."""
    stop, turns = threading.Event(), [0]

    def change() -> None:
        with watching(engine) as connection:
            while not stop.is_set():
                turn = turns[0]
                pair = turn % PAIRS
                with connection.transaction():
                    connection.execute(
                        "UPDATE users SET role = CASE role WHEN 'admin' THEN 'reader' ELSE 'admin' END"
                        " WHERE email IN (%s, %s)",
                        [f"user-{pair + 1}@example.com", f"user-{pair + 1 + PAIRS}@example.com"],
                    )
                    connection.execute("DELETE FROM users WHERE email = %s", [f"spare-{turn}@example.com"])
                    connection.execute(
                        "INSERT INTO users (id, email, name, role) VALUES (gen_random_uuid(), %s, 'Spare', 'author')",
                        [f"spare-{turn + 1}@example.com"],
                    )
                turns[0] += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield turns
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def pairs(engine: Engine) -> Engine:
    """Users n and n + PAIRS are a pair, of which one is admin; and there is one spare user."""
    insert_users(engine, 2 * PAIRS)
    with pool.transaction(engine) as connection:
        connection.execute(
            "UPDATE users SET role = CASE WHEN split_part(split_part(email, '@', 1), '-', 2)::int > %s"
            " THEN 'admin' ELSE 'reader' END",
            [PAIRS],
        )
        connection.execute(
            "INSERT INTO users (id, email, name, role)"
            " VALUES (gen_random_uuid(), 'spare-0@example.com', 'Spare', 'author')"
        )
    return engine


@pytest.mark.parametrize(("format_", "connections"), [(Format.CSV, 1), (Format.CSV, 3), (Format.PARQUET, 3)])
def test_nobody_sees_half_a_change(
    pairs: Engine, monkeypatch: pytest.MonkeyPatch, format_: Format, connections: int
) -> None:
    cut_small(monkeypatch)
    request = ExportRequest("users", format_, ("email", "role"))
    with changing(pairs) as turns:
        for _ in range(5):
            before = turns[0]
            rows = read(pairs, request, exported_by(connections, pairs, request))
            until(lambda before=before: turns[0] > before, "rows are being changed")  # type: ignore[misc]
            assert len(rows) == len(set(rows)) == 2 * PAIRS + 1
            admins = Counter(number_of(email) % PAIRS for email, role in rows if role == "admin")
            assert set(admins.values()) == {1}
            assert len(admins) == PAIRS
            assert [role for email, role in rows if email.startswith("spare-")] == ["author"]


def number_of(email: str) -> int:
    return int(email.partition("@")[0].partition("-")[2])


def test_many_connections_give_the_file_that_one_gives(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    insert_users(engine, 3_000)
    with pool.transaction(engine) as connection:  # holes, and rows that lie in another order than they came in
        connection.execute("DELETE FROM users WHERE role = 'editor'")
        connection.execute("UPDATE users SET name = name || '!' WHERE role = 'admin'")
    for format_ in (Format.CSV, Format.NDJSON, Format.JSON, Format.XLSX):
        request = ExportRequest("users", format_)
        one = exported_by(1, engine, request)
        with monkeypatch.context() as smaller:
            cut_small(smaller)
            assert exported_by(3, engine, request) == one
    assert sorted(read(engine, request, one)) == stored(engine, request)


def test_an_order_that_was_asked_for_holds_over_many_connections(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_small(monkeypatch)
    insert_users(engine, 2_000)
    request = ExportRequest("users", Format.CSV, order=(Order("created_at", descending=True),))
    rows = read(engine, request, exported_by(4, engine, request))
    assert [number_of(row[1]) for row in rows] == list(range(2_000, 0, -1))


@pytest.mark.skipif(os.environ.get("SESSIONS") == "pgbouncer", reason="PgBouncer reads ahead of its client")
def test_the_parts_are_read_at_the_same_time(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection is in the middle of a part of its own, none of which fits into what is held ready."""
    cut_small(monkeypatch, blocks=512)
    monkeypatch.setattr(readers, "ROOM", 1)
    insert_users(engine, 100_000)
    with watching(engine) as connection:
        pieces = read_by(3, engine, ExportRequest("users"), never, Tally(), 0)
        next(pieces)
        until(lambda: exporting(connection, "AND wait_event = 'ClientWrite'") == 3, "three connections are ahead")
        assert sum(piece.count(b"\n") for piece in pieces) > 90_000
        until(lambda: exporting(connection) == 0, "no connection of an export is left")


def test_progress_knows_about_how_much_there_is(engine: Engine) -> None:
    insert_users(engine, 2_000)
    with watching(engine) as connection:
        connection.execute("ANALYZE users")
    tally = Tally()
    data = b"".join(stream(engine, ExportRequest("users"), tally=tally))
    assert tally == Tally(rows=2_000, bytes=len(data), expected_rows=2_000)


def test_a_table_that_somebody_rebuilds_is_an_error_in_time(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "PATIENCE", "SET LOCAL lock_timeout = '200ms'")
    with watching(engine) as connection, connection.transaction():
        connection.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        for format_ in (Format.CSV, Format.PARQUET):
            with pytest.raises(Unavailable, match="users cannot be exported: .*lock timeout"):
                exported(engine, ExportRequest("users", format_))


def test_a_table_that_is_not_there(engine: Engine) -> None:
    with pool.transaction(engine) as connection:
        connection.execute("DROP TABLE comments")
    with pytest.raises(Unavailable, match='comments cannot be exported: relation "comments" does not exist'):
        exported(engine, ExportRequest("comments"))


def test_a_table_that_has_changed_says_what_to_do(engine: Engine) -> None:
    with pool.transaction(engine) as connection:
        connection.execute("ALTER TABLE users RENAME name TO called")
    for format_ in (Format.CSV, Format.PARQUET):
        with pytest.raises(Unavailable, match="column users.name does not exist.*`bulk resources check`"):
            exported(engine, ExportRequest("users", format_))


def test_postgresqls_own_complaint_is_passed_on(engine: Engine) -> None:
    """A text with more words than full text search can take; found while rows are already being read."""
    insert_users(engine, 1)
    with pool.transaction(engine) as connection:
        connection.execute(
            "UPDATE users SET name = (SELECT string_agg(md5(n::text), ' ') FROM generate_series(1, 60000) n)"
        )
    for format_ in (Format.CSV, Format.XLSX):
        request = ExportRequest("users", format_, filters=(parse("name~=word"),))
        with pytest.raises(Unavailable, match="users cannot be exported: string is too long for tsvector") as caught:
            exported(engine, request)
        assert "SELECT" not in str(caught.value)


def test_too_few_connections_left(database_url: str) -> None:
    """The export's own connections come on top of the pool's; the pool gives one, and only for the planning."""
    small = pool.connect(database_url, size=1, timeout=2)
    insert_users(small, 10)
    pieces = read_by(2, small, ExportRequest("users"), never, Tally(), 0)
    next(pieces)
    with pool.transaction(small) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    pieces.close()
    small.dispose()


def test_a_server_that_is_not_there() -> None:
    nowhere = pool.connect("postgresql://somebody:s3cret@127.0.0.1:1/nowhere", timeout=2)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1") as caught:
        exported(nowhere, ExportRequest("users"))
    assert "s3cret" not in str(caught.value)
