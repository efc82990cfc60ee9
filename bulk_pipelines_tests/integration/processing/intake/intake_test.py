"""Rows become items: from every format, whatever they hold, once, and on from where an earlier intake stopped."""

import gzip
import io
import itertools
import json
import random
import tracemalloc
from collections.abc import Iterator
from datetime import date
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.processing import trial
from bulk_pipelines.processing.intake import planning, records
from bulk_pipelines.processing.intake.rows import UNREADABLE
from bulk_pipelines.processing.matching.references import Columns
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.references import rows as entries_of
from bulk_pipelines.processing.references.declaration import Reference
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.changing_tables import meanwhile
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


def workbook(*sheets: list[Any]) -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    for number, rows in enumerate(sheets):
        sheet = book.active if number == 0 else book.create_sheet()
        assert sheet is not None
        for row in rows:
            sheet.append(row)
    book.save(out)
    return out.getvalue()


TABLE = pa.table(
    {
        "title": ["lamp", "stuhl", "x"],
        "price": [9.5, None, 3.0],
        "made": [date(2026, 1, 2), None, date(2026, 3, 4)],
        "tags": [["a", "b"], [], None],
    }
)


def stored(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "parquet":
        pq.write_table(TABLE, out, row_group_size=2)
    else:
        writer = (pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream)(out, TABLE.schema)
        writer.write_table(TABLE)
        writer.close()
    return out.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_tables_come_as_the_texts_of_their_values(scene: Scene, kind: str) -> None:
    job = scene.planned(source=scene.file(stored(kind), "rows.bin"))
    assert scene.inputs(job) == [
        {"title": "lamp", "price": "9.5", "made": "2026-01-02", "tags": '["a", "b"]'},
        {"title": "stuhl", "price": None, "made": None, "tags": "[]"},
        {"title": "x", "price": "3", "made": "2026-03-04", "tags": None},
    ]
    engine_jobs.check_counters(scene.pool, job)
    with pytest.raises(InvalidInput, match="said to be csv"):
        scene.planned(source=scene.file(stored(kind), "rows.bin"), format="csv")


def test_a_sheet_is_read_with_what_is_wrong_in_it(scene: Scene) -> None:
    rows = [["title", "price"], ["lamp", 9.5], [], ["stuhl", None], ["x", 3, "surplus"], [date(2026, 1, 2), True]]
    job = scene.planned(source=scene.file(workbook(rows, []), "rows.xlsx"), format="xlsx")
    first, second, third, fourth = scene.inputs(job)
    assert (first, second) == ({"title": "lamp", "price": "9.5"}, {"title": "stuhl", "price": None})
    assert third[UNREADABLE] == "3 values instead of 2"
    assert fourth == {"title": "2026-01-02", "price": "true"}
    found = library.load(current())
    told = list(trial.run(scene.pool, found, found.recipe("products"), str(scene.folder / "rows.xlsx"), 2, current()))
    assert len(told) == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (workbook([["title"], ["a"]], [["title"], ["b"]]), "the workbook has the sheets"),
        (workbook([["brand"], ["a"]]), "needs the column title"),
        (workbook([["title", "title"], ["a", "b"]]), "same name"),
        (workbook([["title"]]), "no records"),
        (workbook([]), "is empty"),
        (workbook([["title"], ["a"]])[:2_000], "the zip archive is damaged"),
        (stored("parquet")[:-20], "cannot be read"),
        (stored("arrow")[:200], "cannot be read"),
    ],
)
def test_a_table_that_cannot_be_read(scene: Scene, content: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        scene.planned(source=scene.file(content, "rows.bin"))


def test_a_table_that_was_cut_short_goes_on(scene: Scene) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"title": [f"t{number}" for number in range(5_000)]}), out, row_group_size=700)
    job = scene.submitted(source=scene.file(out.getvalue(), "rows.parquet"))
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)
    there = []
    while scene.job(job.job_key).planned_at is None:
        planning.plan(scene.pool, job, lambda: True)
        there.append(scene.job(job.job_key).total_items)
    assert len(there) > 2
    assert [row["title"] for row in scene.inputs(job)] == [f"t{number}" for number in range(5_000)]


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


def test_a_table_that_is_being_filled_anew_is_read_when_it_is_full(scene: Scene) -> None:
    with transaction(scene.pool) as connection:
        connection.execute("CREATE TABLE public.wares (title text)")
        connection.execute("INSERT INTO wares VALUES ('old')")
    job = meanwhile(
        scene.pool,
        lambda: scene.planned(query="SELECT title FROM wares UNION ALL SELECT 'another'"),
        "TRUNCATE wares; INSERT INTO wares VALUES ('new')",
    )
    assert scene.inputs(job) == [{"title": "new"}, {"title": "another"}]
    reference = Reference("wares", "", Columns(("title",), "title"))

    def names() -> list[str]:
        with entries_of.opened(scene.pool, reference) as (connection, relation):
            return [entry.id for entry in relation.entries(connection)]

    assert meanwhile(scene.pool, names, "TRUNCATE wares; INSERT INTO wares VALUES ('newest')") == ["newest"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT 1 AS title) AS a; DROP TABLE job_item; SELECT * FROM (SELECT 1", "multiple commands"),
        ("SELECT 1 AS title) AS a; COMMIT; SELECT * FROM (SELECT 1", "multiple commands"),
        ("DELETE FROM job_item", "syntax error"),
        ("WITH gone AS (DELETE FROM bulk.job_item RETURNING 1) SELECT * FROM gone", "top level"),
        ("SELECT nextval('bulk.job_number') AS title", "read-only"),
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
        (b"title\na\x81\nb\n", ["half a surrogate", ""]),
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
        (b"PK\x03\x04abc", "the zip archive is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_at_all(scene: Scene, content: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        scene.planned(source=scene.file(content))


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
