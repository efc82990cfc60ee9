"""Rows become items: from every format, whatever they hold, once, and on from where an earlier intake stopped."""

import gzip
import itertools
import json
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.intake.persist import Encoded
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.errors import Conflict, InvalidInput, Transient
from bulk_pipelines.processing.intake import planning, records
from bulk_pipelines.processing.intake.rows import UNREADABLE
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.processing import Scene, lines


@pytest.fixture(autouse=True)
def shop(scene: Scene) -> None:
    scene.shop("http://127.0.0.1:9/")


ROWS = [{"title": "lamp", "brand": 'a "b", c\\d\te'}, {"title": "stuhl", "brand": "ä\nö"}, {"title": "x", "brand": ""}]
CSV = 'title,brand\r\nlamp,"a ""b"", c\\d\te"\r\n"stuhl","ä\nö"\nx,\n'


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(CSV.encode(), id="csv"),
        pytest.param(b"\xef\xbb\xbf" + CSV.encode(), id="csv with a BOM"),
        pytest.param(gzip.compress(CSV.encode()), id="csv packed"),
        pytest.param(lines(ROWS).encode(), id="ndjson"),
        pytest.param(json.dumps(ROWS, indent=2).encode(), id="json"),
        pytest.param(json.dumps(ROWS, ensure_ascii=False).encode(), id="json on one line"),
    ],
)
def test_every_format_comes_to_the_same_rows(scene: Scene, content: bytes) -> None:
    job = scene.planned(source=scene.file(content))
    assert scene.inputs(job) == ROWS
    assert (job.total_items, job.pending_items) == (3, 3)
    assert job.planned_at is not None
    engine_jobs.check_counters(scene.pool, job)
    assert not list((scene.folder / "home" / "landed").rglob("rows*")), "the copy is not needed any more"


def test_a_table_and_a_query(scene: Scene) -> None:
    with transaction(scene.pool) as connection:
        connection.execute("CREATE TABLE public.wares (title text, price numeric, made date)")
        connection.execute("INSERT INTO wares VALUES ('lamp', 9.90, '2026-01-02'), ('chair', NULL, NULL)")
    job = scene.planned(table="wares")
    assert scene.inputs(job) == [
        {"title": "lamp", "price": 9.9, "made": "2026-01-02"},
        {"title": "chair", "price": None, "made": None},
    ]
    job = scene.planned(query="SELECT upper(title) AS title FROM wares ORDER BY title; ")
    assert scene.inputs(job) == [{"title": "CHAIR"}, {"title": "LAMP"}]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT 1 AS title) AS a; DROP TABLE job_item; SELECT * FROM (SELECT 1", "multiple commands"),
        ("SELECT 1 AS title) AS a; COMMIT; SELECT * FROM (SELECT 1", "multiple commands"),
        ("DELETE FROM job_item", "syntax error"),
        ("WITH gone AS (DELETE FROM job_item RETURNING 1) SELECT * FROM gone", "top level"),
        ("SELECT nextval('job_number') AS title", "read-only"),
        ("SELECT 1 AS title, 2 AS title", "same name"),
        ("SELECT 1 AS title WHERE false", "no rows"),
        ("SELECT 1 AS brand", "needs the column title"),
        ("SELECT 1/0 AS title", "division by zero"),
        ("SELECT", "no columns"),
    ],
)
def test_a_query_that_is_refused_leaves_nothing(scene: Scene, query: str, why: str) -> None:
    job = scene.submitted(query=query)
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)
    with pytest.raises(InvalidInput, match=why):
        planning.plan(scene.pool, job)
    assert scene.rows(job) == []
    assert scene.job(job.job_key).total_items == 0


@pytest.mark.parametrize(
    ("content", "reasons"),
    [
        (b"title\na\nb,c\n\nd\n", ["", "2 fields instead of 1", ""]),
        (b'title\na\n"b\nc\n', ["", "unexpected end of data"]),
        (b'title\n"a"b\nc\n', ["expected after", ""]),
        (b"title\na\xff\nb\n", ["half a surrogate", ""]),
        (b"title\na\x00b\nc\n", ["NUL", ""]),
        (b'{"title": "a"}\nnull\n[1]\n{"title": NaN}\n{"title": 1e999}\n', ["", "NoneType", "list", "NaN", "not JSON"]),
        (b'{"title": 1, "title": 2}\n{"title": "\\ud800"}\n{"a"\n', ["twice", "surrogate", "not JSON"]),
        (b'{"title": ' + b"[" * 5_000 + b"]" * 5_000 + b"}\n", ["nested"]),
        (b'{"_unreadable": "lie"}\n', ["it has a field"]),
        (b'{"title": "' + b"x" * 1_100_000 + b'"}\n{"title": "b"}\n', ["larger than", ""]),
        (b'[{"title": "a"}, 5, "x", {"title": null}]', ["", "int", "str", ""]),
    ],
)
def test_a_record_that_cannot_be_read_is_a_row_that_says_why(scene: Scene, content: bytes, reasons: list[str]) -> None:
    job = scene.planned(source=scene.file(content))
    found = [str(row.get(UNREADABLE, "")) for row in scene.inputs(job)]
    assert len(found) == len(reasons)
    for said, wanted in zip(found, reasons, strict=True):
        assert wanted in said
        assert bool(wanted) == bool(said)


def test_a_record_of_csv_that_never_ends_is_no_larger_than_a_record_may_be() -> None:
    """No single field of it is long. What follows is read on."""

    def endless() -> Iterator[bytes]:
        yield b'title\na\n"\n'
        for _ in range(100):
            yield b'","\n' * 100_000

    rows = iter(records.opened(endless()))
    tracemalloc.start()
    first, second, third = itertools.islice(rows, 3)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert first == {"title": "a"}
    assert "longer than" in second[UNREADABLE]
    assert third
    assert most < 100 * 1024 * 1024


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b" \n \n", "empty"),
        (b"title\n", "no records"),
        (b"[]", "no records"),
        (b'[{"title": "a"}', "never closed"),
        (b'[{"title": "a"} {"title": "b"}]', "no comma"),
        (b'[{"title": "a"}] x', "more behind the end"),
        (b'[{"title": "a"},]', "cannot be read"),
        (b"title,title\na,b\n", "same name"),
        (b"title,,x\na,b,c\n", "no name"),
        (b"brand\na\n", "needs the column title"),
        (b"PK\x03\x04abc", "zip archive"),
        ("title\na\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_a_file_that_cannot_be_read_at_all(scene: Scene, content: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        scene.planned(source=scene.file(content))


def test_an_intake_that_was_cut_short_goes_on_with_the_same_bytes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = [f"t{number}" for number in range(5_000)]
    source = scene.products(*titles)
    job = scene.submitted(source=source)
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)
    real = persist.copy_batch

    def dying(connection: Connection, job_id: int, batch: list[Encoded], before: int) -> None:
        if before >= 2_000:
            raise KeyboardInterrupt
        real(connection, job_id, batch, before)

    monkeypatch.setattr(persist, "copy_batch", dying)
    with pytest.raises(KeyboardInterrupt):
        planning.plan(scene.pool, job)
    there = scene.job(job.job_key).total_items
    assert 0 < there < 5_000
    monkeypatch.setattr(persist, "copy_batch", real)
    scene.products("other", "rows")  # the source has changed meanwhile, which does not matter
    planning.plan(scene.pool, job)
    assert [row["title"] for row in scene.inputs(job)] == titles
    engine_jobs.check_counters(scene.pool, job)


def test_two_intakes_of_one_job_add_each_row_once(scene: Scene) -> None:
    """An orphan of an earlier try may still be at it: one of the two goes on, the other is told."""
    job = scene.submitted(source=scene.products(*[f"t{number}" for number in range(3_000)]))
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)

    def rows(count: int) -> Iterator[Encoded]:
        return records.items(({"title": f"t{number}"} for number in range(count)), 1)

    sizer = BatchSizer.within(BatchLimits(start_rows=1_000, max_rows=1_000))
    assert persist.copy_items(scene.pool, job.job_id, rows(2_000), sizer, before=0) == 2_000
    late = BatchSizer.within(BatchLimits(start_rows=700, max_rows=700))
    with pytest.raises(Conflict, match="somebody else"):
        persist.copy_items(scene.pool, job.job_id, rows(3_000), late, before=0)
    assert scene.job(job.job_key).total_items == 2_000


def test_a_plan_that_meets_another_one_goes_on_behind_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The orphan of an earlier try, or a kick-off, adds rows at the same time. That must not fail the job."""
    titles = [f"t{number}" for number in range(1_500)]
    job = scene.submitted(source=scene.products(*titles))
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)
    real = persist.copy_batch

    def beside(connection: Connection, job_id: int, batch: list[Encoded], before: int) -> None:
        if before == 0:
            with transaction(scene.pool) as other:
                real(other, job_id, batch[:7], 0)
        real(connection, job_id, batch, before)

    monkeypatch.setattr(persist, "copy_batch", beside)
    with pytest.raises(Transient, match="somebody else"):
        planning.plan(scene.pool, job)
    assert scene.job(job.job_key).total_items == 7
    assert planning.plan(scene.pool, job).planned_at is not None
    assert [row["title"] for row in scene.inputs(job)] == titles
    engine_jobs.check_counters(scene.pool, job)


def test_a_plan_that_another_one_overtakes_is_done(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    job = scene.submitted(source=scene.products("a", "b"))
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)
    real = persist.copy_batch

    def overtaken(connection: Connection, job_id: int, batch: list[Encoded], before: int) -> None:
        monkeypatch.setattr(persist, "copy_batch", real)
        planning.plan(scene.pool, job)
        real(connection, job_id, batch, before)

    monkeypatch.setattr(persist, "copy_batch", overtaken)
    assert planning.plan(scene.pool, job).planned_at is not None
    assert [row["title"] for row in scene.inputs(job)] == ["a", "b"]


def test_a_plan_of_a_job_that_was_cancelled_meanwhile_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    job = scene.submitted(source=scene.products("a", "b"))
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)
    real = persist.copy_batch

    def cancelled(connection: Connection, job_id: int, batch: list[Encoded], before: int) -> None:
        jobs.cancel(scene.pool, job.job_key)
        real(connection, job_id, batch, before)

    monkeypatch.setattr(persist, "copy_batch", cancelled)
    with pytest.raises(Conflict, match="is over"):
        planning.plan(scene.pool, job)


def test_the_answer_to_a_commit_that_was_lost_does_not_double_a_batch(scene: Scene) -> None:
    job = engine_jobs.submitted(scene.pool)
    batch = list(records.items(({"n": number} for number in range(10)), 1))
    for _ in range(2):
        with transaction(scene.pool) as connection:
            persist.copy_batch(connection, job.job_id, batch, 0)
    assert len(scene.rows(job)) == 10


def test_copied_items_are_those_that_were_given(scene: Scene) -> None:
    """Whatever texts hold: COPY's own marks, too."""
    dice = random.Random(7)
    alphabet = "\\\t\n\r\"'ab\\.N{}, \u2028é\x01\x7f\x85"
    rows: list[dict[str, Any]] = [
        {"".join(dice.choices(alphabet, k=3)): "".join(dice.choices(alphabet, k=9))} for _ in range(500)
    ]
    job = engine_jobs.submitted(scene.pool)
    sizer = BatchSizer.within(BatchLimits())
    persist.copy_items(scene.pool, job.job_id, records.items(rows, 1), sizer, before=0)
    assert scene.inputs(job) == rows


def test_the_same_key_is_one_job(scene: Scene) -> None:
    source = scene.products("lamp")
    assert scene.submitted(key="k", source=source).job_key == scene.submitted(key="k", source=source).job_key
    with pytest.raises(Conflict):
        scene.submitted(key="k", source=scene.file("title\nx\n", "other.csv"))
