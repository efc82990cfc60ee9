"""Loading into tables that object, that others write to, and that refer to each other."""

import threading
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines import resources
from bulk_pipelines.database import namespaces, pool
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.load import loading
from bulk_pipelines.imports.reconcile import last_wins
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.validate import validation
from bulk_pipelines_tests.scenes.import_runs import Pace, Run, finished, prepared, rows
from bulk_pipelines_tests.scenes.listening import listening


def key(number: int) -> str:
    return str(uuid.UUID(int=number))


def users(path: Path, people: Iterable[tuple[int, str]]) -> Path:
    lines = [f"{key(number)},{email},Name {line},reader" for line, (number, email) in enumerate(people, 2)]
    path.write_text("\n".join(["id,email,name,role", *lines]) + "\n")
    return path


def articles(path: Path, found: Iterable[tuple[int, str, int]]) -> Path:
    lines = [f'{key(number)},{slug},T,B,{key(author)},draft,"[""t""]"' for number, slug, author in found]
    path.write_text("\n".join(["id,slug,title,body,author_id,status,tags", *lines]) + "\n")
    return path


def comments(path: Path, found: Iterable[tuple[int, int, int]]) -> Path:
    lines = [f"{key(number)},{key(article)},{key(user)},Hm" for number, article, user in found]
    path.write_text("\n".join(["id,article_id,user_id,body", *lines]) + "\n")
    return path


def query(engine: Engine, text: str) -> list[tuple[object, ...]]:
    with pool.transaction(engine) as connection:
        return connection.execute(text.encode()).fetchall()


def test_a_duplicate_is_told_with_line_field_value_and_place(engine: Engine, tmp_path: Path) -> None:
    finished(engine, users(tmp_path / "first.csv", [(1, "one@x.org")]))
    run = finished(
        engine,
        users(tmp_path / "second.csv", [(1, "new@x.org"), (2, "ONE@x.org"), (3, "three@x.org"), (3, "Three@x.org")]),
        job_id=2,
    )
    table, file = "a row of the table has it", "line 4 of the file has it"
    assert [(line, reasons) for line, _, reasons in run.rejected()] == [
        (2, [{"code": "duplicate_id", "field": "id", "value": key(1), "detail": table}]),
        (3, [{"code": "duplicate_email", "field": "email", "value": "ONE@x.org", "detail": table}]),
        (
            5,
            [
                {"code": "duplicate_id", "field": "id", "value": key(3), "detail": file},
                {"code": "duplicate_email", "field": "email", "value": "Three@x.org", "detail": file},
            ],
        ),
    ]
    assert run.counts == Counts(read=4, loaded=1, rejected=3)


def test_references_must_lead_somewhere(engine: Engine, tmp_path: Path) -> None:
    finished(engine, users(tmp_path / "users.csv", [(1, "one@x.org")]))
    run = finished(
        engine, articles(tmp_path / "articles.csv", [(1, "a", 1), (2, "b", 9), (3, "a", 9)]), "articles", job_id=2
    )
    assert run.codes() == {3: ["invalid_author_id"], 4: ["duplicate_slug", "invalid_author_id"]}
    found = finished(
        engine, comments(tmp_path / "comments.csv", [(1, 1, 1), (2, 2, 1), (3, 7, 8)]), "comments", job_id=3
    )
    assert found.codes() == {3: ["invalid_article_id"], 4: ["invalid_article_id", "invalid_user_id"]}
    assert query(engine, "SELECT tags FROM articles") == [(["t"],)]


@pytest.mark.parametrize("mode", [Mode.VALIDATE, Mode.UPSERT])
def test_references_in_the_other_modes(engine: Engine, tmp_path: Path, mode: Mode) -> None:
    finished(engine, users(tmp_path / "users.csv", [(1, "one@x.org")]))
    run = finished(engine, articles(tmp_path / "articles.csv", [(1, "a", 1), (2, "b", 9)]), "articles", mode)
    assert run.codes() == {3: ["invalid_author_id"]}
    assert [raw for _, raw, _ in run.rejected()] == [(tmp_path / "articles.csv").read_bytes().splitlines()[2]]
    assert len(rows(engine, resources.find("articles"))) == (mode is Mode.UPSERT)


def test_a_row_that_others_refer_to_is_not_displaced(engine: Engine, tmp_path: Path) -> None:
    """Two records of one slug: the later one was loaded first, and a comment came before the earlier one did."""
    finished(engine, users(tmp_path / "users.csv", [(1, "one@x.org")]))
    path = articles(tmp_path / "articles.csv", [(1, "a", 1), (2, "a", 1), (3, "b", 1), (4, "b", 1)])
    run = prepared(engine, path, "articles", range_bytes=1)
    assert len(run.ranges) == 4
    for piece in reversed(run.ranges):
        run.load_range(piece)
    finished(engine, comments(tmp_path / "comments.csv", [(1, 2, 1)]), "comments", job_id=2)
    run.reconcile()
    assert query(engine, "SELECT id FROM articles ORDER BY id") == [(uuid.UUID(int=2),), (uuid.UUID(int=3),)]
    assert run.codes() == {2: ["duplicate_slug"], 5: ["duplicate_slug"]}
    assert run.counts == Counts(read=4, loaded=2, rejected=2)


def test_a_constraint_that_nobody_declared(engine: Engine, tmp_path: Path) -> None:
    """Somebody added rules to the table: the rows they are about are told, the others loaded."""
    with pool.transaction(engine) as connection:
        connection.execute("ALTER TABLE users ADD CONSTRAINT no_bobs CHECK (email NOT LIKE 'bob%')")
        connection.execute("CREATE UNIQUE INDEX one_zoe ON users ((true)) WHERE email LIKE 'zoe%'")
    people = [(number, f"user{number}@x.org") for number in range(1, 200)]
    people[49], people[99], people[100] = (50, "bob1@x.org"), (100, "bob2@x.org"), (101, "bob3@x.org")
    people[149], people[150] = (150, "zoe1@x.org"), (151, "zoe2@x.org")
    run = finished(engine, users(tmp_path / "users.csv", people))
    assert run.codes() == {line: ["refused_by_table"] for line in (51, 101, 102, 152)}
    assert "no_bobs" in run.rejected()[0][2][0]["detail"]
    assert run.counts == Counts(read=199, loaded=195, rejected=4)
    merged = finished(
        engine, users(tmp_path / "more.csv", [(1, "bob9@x.org"), (2, "new@x.org")]), mode=Mode.UPSERT, job_id=2
    )
    assert merged.codes() == {2: ["refused_by_table"]}
    assert merged.counts == Counts(read=2, loaded=1, rejected=1, updated=1)


def test_an_upsert_changes_what_the_file_gives(engine: Engine, tmp_path: Path) -> None:
    first = tmp_path / "first.csv"
    first.write_text(f"id,email,name,role,active,created_at\n{key(1)},a@x.org,Old,reader,false,2020-01-01\n")
    finished(engine, first)
    second = tmp_path / "second.csv"
    second.write_text("role,email,name,active\nadmin,A@X.org,New,\nreader,b@x.org,B,\n")
    run = finished(engine, second, mode=Mode.UPSERT, job_id=2)
    assert run.context.match_on is not None
    assert run.context.match_on.column == "email"
    assert query(
        engine, "SELECT email, name, role, active, created_at::date::text, import_job FROM users ORDER BY 1"
    ) == [
        ("A@X.org", "New", "admin", False, "2020-01-01", 2),
        ("b@x.org", "B", "reader", True, "2026-01-10", 2),
    ]
    assert query(engine, "SELECT id FROM users WHERE name = 'New'") == [(uuid.UUID(int=1),)]
    assert query(engine, "SELECT DISTINCT updated_at::date::text FROM users") == [("2026-01-10",)]


def load_in_thread(run: Run, start: threading.Barrier) -> None:
    start.wait()
    run.load()


@pytest.mark.parametrize("deadlocking", [False, True], ids=["same file", "addresses in opposite order"])
def test_two_imports_of_the_same_new_keys_at_once(engine: Engine, tmp_path: Path, deadlocking: bool) -> None:
    """Neither fails, whoever waits for whom; every key is there once, each record is loaded or told as a duplicate."""
    count = 4_000
    people = [(number, f"user{number:05}@x.org") for number in range(1, count + 1)]
    others = people
    if deadlocking:
        # The ids differ, and rows go in the order of their ids: each import soon waits for an address of the other.
        others = [(count + number, email) for number, (_, email) in enumerate(reversed(people), 1)]
    files = [users(tmp_path / "one.csv", people), users(tmp_path / "two.csv", others)]
    runs = [prepared(engine, path, job_id=job, rows=count) for job, path in enumerate(files, 1)]
    start = threading.Barrier(2)
    with ThreadPoolExecutor(2) as executor:
        for future in [executor.submit(load_in_thread, run, start) for run in runs]:
            future.result(timeout=120)
    for run in runs:
        run.reconcile()
        assert run.counts.loaded + run.counts.rejected == count
        assert len(run.codes()) == run.counts.rejected
        codes = {code for found in run.codes().values() for code in found}
        assert codes <= {"duplicate_id", "duplicate_email"}
    assert sum(run.counts.loaded for run in runs) == count
    assert query(engine, "SELECT count(DISTINCT email) FROM users") == [(count,)]


@pytest.mark.parametrize("deadlocking", [False, True], ids=["same order", "opposite order"])
def test_two_upserts_of_the_same_keys_at_once(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deadlocking: bool
) -> None:
    """Each merges everything in one transaction: whoever commits last has written all rows, new and old ones."""
    monkeypatch.setattr(last_wins, "AT_ONCE", 100)
    count = 2_000
    finished(engine, users(tmp_path / "old.csv", [(number, f"user{number}@x.org") for number in range(1, 1_000)]))
    people = [(number, f"user{number}@x.org") for number in range(1, count + 1)]
    files = [people, people[::-1] if deadlocking else people]
    runs = [
        prepared(engine, users(tmp_path / f"{job}.csv", each), mode=Mode.UPSERT, match_on="email", job_id=job).load()
        for job, each in enumerate(files, 2)
    ]
    start = threading.Barrier(2)
    with ThreadPoolExecutor(2) as executor:
        for future in [executor.submit(reconcile_in_thread, run, start) for run in runs]:
            future.result(timeout=120)
    for run in runs:
        assert (run.counts.read, run.counts.loaded, run.counts.rejected) == (count, count, 0)
    assert sorted(run.counts.inserted for run in runs) == [0, count - 999]
    ((jobs, total),) = query(engine, "SELECT count(DISTINCT import_job), count(DISTINCT email) FROM users")
    assert (jobs, total) == (1, count)


def reconcile_in_thread(run: Run, start: threading.Barrier) -> None:
    start.wait()
    run.reconcile()


def test_lanes_of_one_import_at_once(engine: Engine, tmp_path: Path) -> None:
    """Four lanes over one file full of duplicates come to what one lane comes to."""
    people = [(number % 700 + 1, f"user{number * 7 % 900}@x.org") for number in range(4_000)]
    path = users(tmp_path / "users.csv", people)
    alone = finished(engine, path, rows=5_000)
    expected = (rows(engine, resources.find("users")), alone.rejected(), alone.counts)
    with pool.transaction(engine) as connection:
        connection.execute("DELETE FROM users; DELETE FROM rejected_row")
    runs = [prepared(engine, path, range_bytes=path.stat().st_size // 8, rows=100) for _ in range(4)]
    pieces = iter(runs[0].ranges)
    lock = threading.Lock()

    def lane(run: Run) -> None:
        while True:
            with lock:
                piece = next(pieces, None)
            if piece is None:
                return
            run.load_range(piece)

    with ThreadPoolExecutor(4) as executor:
        for future in [executor.submit(lane, run) for run in runs]:
            future.result(timeout=120)
    runs[0].reconcile()
    counts = sum((run.counts for run in runs), Counts())
    assert (rows(engine, resources.find("users")), runs[0].rejected(), counts) == expected


def test_a_lost_connection_leaves_nothing_of_the_batch(engine: Engine, tmp_path: Path) -> None:
    run = prepared(engine, users(tmp_path / "users.csv", [(1, "one@x.org"), (1, "two@x.org")]))
    block = next(iter(validated_blocks(run)))
    with pytest.raises(Unavailable), pool.transaction(engine) as connection:
        loading.load_batch(connection, run.context, block)
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert query(engine, "SELECT count(*) FROM users") == [(0,)]
    assert query(engine, "SELECT count(*) FROM rejected_row") == [(0,)]
    run.load().reconcile()
    assert run.counts == Counts(read=2, loaded=1, rejected=1)


def validated_blocks(run: Run) -> Iterable[validation.Validated]:
    for piece in run.ranges:
        for block in blocks.read(run.source, run.layout, piece, Pace(100), 1 << 20):
            yield validation.validate(run.context, run.layout, block)


def test_nothing_is_asked_about_a_batch_that_can_lose_nothing(engine: Engine, tmp_path: Path) -> None:
    """Only the COPY itself needs names to mean what they mean to people."""
    run = prepared(engine, users(tmp_path / "users.csv", [(1, "one@x.org")]))
    (block,) = validated_blocks(run)
    heard: list[str] = []
    with listening(engine, heard.append) as told, pool.transaction(told) as connection:
        loading.load_batch(connection, run.context, block)
    assert sum(namespaces.NOW in each for each in heard) == 1
