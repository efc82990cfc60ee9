"""Parquet and Arrow files whose fields have types: no value becomes another one, and what a CSV file of the same values
could load is loaded."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet
import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats import rows
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.afterwards import replays
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.report.preview import preview
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.storage.access import access_of
from bulk_pipelines_tests.scenes import shop as shops
from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.whole_imports import begun, imported, worked

pytestmark = pytest.mark.usefixtures("home")
BEFORE_MIDNIGHT = datetime(2026, 1, 5, 23, 59, 59, 700_600)  # noqa: DTZ001 - a field may have no zone


@pytest.fixture
def shop(engine: Engine) -> Shop:
    return shops.opened(engine)


def as_parquet(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pyarrow.parquet.write_table(pa.table(columns), path, **options)
    return path


def as_arrow(path: Path, columns: dict[str, Any]) -> Path:
    table = pa.table(columns)
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def loaded(shop: Shop, path: Path, *, mode: str = "insert", **options: Any) -> tuple[Job, dict[int, list[str]]]:
    """Import the file into the table of the test. Return the job, and the codes of its rejects."""
    declared = shop.declared("shop.typed")
    reading = Reading.of(options)
    job = imported(shop.engine, declared.name, path, declaration=declared, mode=mode, reading=reading)
    assert job.finished, job.last_error
    return job, Imports(shop.engine, path.parent).codes(job)


def held(shop: Shop) -> list[tuple[Any, ...]]:
    return shop.query("SELECT * FROM shop.typed ORDER BY id")


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize(
    ("column", "kind", "values", "kept"),
    [
        ("timestamp(0)", pa.timestamp("us"), [BEFORE_MIDNIGHT, BEFORE_MIDNIGHT.replace(microsecond=0)], [2]),
        (
            "timestamptz(3)",
            pa.timestamp("us", "UTC"),
            [BEFORE_MIDNIGHT, BEFORE_MIDNIGHT.replace(microsecond=7_000)],
            [2],
        ),
        ("timestamp", pa.timestamp("ns"), [1_500, 1_000], [2]),
        ("time(1)", pa.time64("us"), [time(23, 59, 59, 990_000), time(23, 59, 59, 900_000)], [2]),
        ("time", pa.time64("ns"), [1_500, 86_399_000_001_000], [2]),
        ("interval(0)", pa.duration("ms"), [1_700, 2_000], [2]),
        ("interval", pa.duration("ns"), [1_500, -1_000], [2]),
        ("date", pa.timestamp("s"), [1_767_657_599, 1_767_657_600], [2]),
        ("numeric(6,2)", pa.decimal128(9, 4), [Decimal("1.2345"), Decimal("1.2300")], [2]),
    ],
)
def test_what_a_column_would_round_is_rejected(
    shop: Shop, tmp_path: Path, mode: str, column: str, kind: Any, values: Sequence[Any], kept: list[int]
) -> None:
    shop.do(f"CREATE TABLE shop.typed (id integer PRIMARY KEY, value {column})")
    path = as_parquet(tmp_path / "a.parquet", {"id": [1, 2], "value": pa.array(values, kind)})
    _, codes = loaded(shop, path, mode=mode)
    assert codes == {1: ["does_not_fit"]}
    assert [row[0] for row in held(shop)] == kept


def test_a_time_of_day_that_a_date_of_milliseconds_has(shop: Shop, tmp_path: Path) -> None:
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, value date)")
    days = pa.array([3_600_000, 86_400_000], pa.int64()).view(pa.date64())
    _, codes = loaded(shop, as_arrow(tmp_path / "a.arrow", {"id": [1, 2], "value": days}))
    assert codes == {1: ["does_not_fit"]}
    assert held(shop) == [(2, date(1970, 1, 2))]


@pytest.mark.parametrize("days", [-(1 << 31), -(1 << 31) + 10_956, -(1 << 31) + 10_957, -2_440_589, (1 << 31) - 1])
def test_a_day_that_postgresql_does_not_know(shop: Shop, tmp_path: Path, days: int) -> None:
    """PostgreSQL keeps two of these days for infinity."""
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, value date)")
    values = pa.array([days, -2_440_588], pa.int32()).view(pa.date32())
    _, codes = loaded(shop, as_parquet(tmp_path / "a.parquet", {"id": [1, 2], "value": values}))
    assert codes == {1: ["invalid_date"]}
    assert shop.query("SELECT id, value::text FROM shop.typed") == [(2, "4714-11-24 BC")]


@pytest.mark.parametrize(
    ("zone", "kept"), [("America/New_York", False), ("+05:30", False), ("UTC", True), ("Etc/UTC", True), (None, True)]
)
def test_a_zone_that_the_column_would_lose(shop: Shop, tmp_path: Path, zone: str | None, kept: bool) -> None:
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, plain timestamp, zoned timestamptz)")
    moment = pa.array([datetime(2026, 1, 5, 22, 30)], pa.timestamp("us", zone))  # noqa: DTZ001
    path = as_parquet(tmp_path / "a.parquet", {"id": [1], "plain": moment, "zoned": moment})
    _, codes = loaded(shop, path)
    assert codes == ({} if kept else {1: ["does_not_fit"]})
    found = shop.query("SELECT plain::text, zoned::text FROM shop.typed")
    assert found == ([("2026-01-05 22:30:00", "2026-01-05 22:30:00+00")] if kept else [])
    if not kept:
        shop.do("ALTER TABLE shop.typed DROP COLUMN plain; ALTER TABLE shop.typed ADD COLUMN plain text")
        again = as_parquet(tmp_path / "b.parquet", {"id": [1], "plain": moment})
        assert loaded(shop, again)[1] == {}
        assert shop.query("SELECT plain::timestamptz::text FROM shop.typed") == [("2026-01-05 22:30:00+00",)]


def test_a_reject_keeps_its_zone(shop: Shop, tmp_path: Path) -> None:
    """The line of CSV that is kept says it: a replay would take a clock of UTC for one without a zone."""
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, value timestamp)")
    moment = pa.array([datetime(2026, 7, 5, 22, 30)], pa.timestamp("ns", "America/New_York"))  # noqa: DTZ001
    job, _ = loaded(shop, as_parquet(tmp_path / "a.parquet", {"id": [1], "value": moment}))
    chosen, by = settings.current(), Actor("me", "cli", admin=True)
    again = replays.replay(shop.engine, job.job_key, landing.place(chosen), access_of(chosen), by).job
    again = worked(shop.engine, begun(shop.engine, again))
    assert list(Imports(shop.engine, tmp_path).codes(again).values()) == [["does_not_fit"]]
    (reason,) = shop.query(
        "SELECT reasons[0]->>'value' FROM bulk.rejected_row r WHERE job_id = (SELECT max(job_id) FROM bulk.job)"
    )
    assert reason == ("2026-07-05T18:30:00.000000000-04:00",)


BYTES = [b"\x00\x01", b"\\x41", b"", None]


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())]
)
def test_bytes_stay_bytes(shop: Shop, tmp_path: Path, kind: Any) -> None:
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, value bytea, listed bytea[])")
    values = pa.array(BYTES, pa.binary()).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(BYTES, kind)
    lists: Any = pa.ListArray
    columns = {
        "id": range(4),
        "value": values,
        "listed": lists.from_arrays(pa.array([0, 4, 4, 4, 4], pa.int32()), values),
    }
    for place, write in enumerate((as_arrow, as_parquet)):
        path = write(tmp_path / f"file {place}", columns)
        assert loaded(shop, path)[1] == {}
        assert [row[1] for row in held(shop)] == BYTES
        assert held(shop)[0][2] == BYTES
        shop.do("TRUNCATE shop.typed")


def test_texts_of_other_encodings_are_the_same_texts(shop: Shop, tmp_path: Path) -> None:
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, runs text, views text, long text, ids text)")
    words = ["red", "red", None]
    columns = {
        "id": range(3),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["red", None])),
        "views": pa.array(words, pa.string_view()),
        "long": pa.array(words, pa.large_string()),
        "ids": pa.array([UUID(int=7).bytes, UUID(int=7).bytes, None], pa.uuid()),
    }
    _, codes = loaded(shop, as_arrow(tmp_path / "a.arrow", columns))
    assert codes == {}
    assert [row[1:4] for row in held(shop)] == [(word, word, word) for word in words]
    assert held(shop)[0][4] == str(UUID(int=7))


@pytest.mark.parametrize("kind", [pa.decimal128(12, 2), pa.float64()])
def test_a_whole_number_is_whole_beside_any_other(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    monkeypatch.setattr(planning, "RANGE_BYTES", 10)
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, value integer)")
    values = pa.array([1, Decimal("2.5"), 3, 4, -5, 3_000_000_000], pa.decimal128(12, 2)).cast(kind)
    path = as_parquet(tmp_path / "a.parquet", {"id": range(1, 7), "value": values}, row_group_size=2)
    _, codes = loaded(shop, path)
    assert codes == {2: ["invalid_number"], 6: ["invalid_number"]}
    assert held(shop) == [(1, 1), (3, 3), (4, 4), (5, -5)]


def test_expressions_read_fields_of_any_type(shop: Shop, tmp_path: Path) -> None:
    shop.do(
        "CREATE TABLE shop.typed (id integer PRIMARY KEY, qty integer, twice numeric, day date, year integer,"
        " at timestamptz, token uuid, told text)"
    )
    path = as_parquet(
        tmp_path / "a.parquet",
        {
            "id": [1, 2, 3],
            "qty": pa.array([Decimal("4.00"), Decimal("0.50"), None], pa.decimal128(9, 2)),
            "day": pa.array([date(2026, 1, 5)] * 3),
            "at": pa.array([BEFORE_MIDNIGHT] * 3, pa.timestamp("us", "UTC")),
            "token": pa.array([UUID(int=7).bytes] * 3, pa.uuid()),
        },
    )
    expressions = {
        "twice": "qty::numeric * 2",
        "year": "extract(year from day::date)",
        "told": "concat_ws(' ', qty, at, token)",
    }
    _, codes = loaded(shop, path, expressions=expressions)
    assert codes == {2: ["invalid_number"]}
    assert shop.query("SELECT id, qty, twice, year, told FROM shop.typed ORDER BY id") == [
        (1, 4, 8, 2026, f"4.00 2026-01-05T23:59:59.700600Z {UUID(int=7)}"),
        (3, None, None, 2026, f"2026-01-05T23:59:59.700600Z {UUID(int=7)}"),
    ]
    declared = shop.declared("shop.typed")
    options = Options(declared.name, declaration=declared, reading=Reading.of({"expressions": expressions}))
    seen = preview(shop.engine, options, RequestedFile.of(str(path)), settings.current())
    assert (seen.problem, seen.rejected) == (None, 1)


def test_lists_and_structures(shop: Shop, tmp_path: Path) -> None:
    shop.do(
        "CREATE TABLE shop.typed (id integer PRIMARY KEY, grid integer[], parts float8[], words text[], data jsonb,"
        " pairs jsonb, prices numeric[], spans interval[])"
    )
    words = pa.array(["red", 'dark "blue"', None, ""]).dictionary_encode()
    columns = {
        "id": [1],
        "grid": pa.array([[[1, 2], [3, None]]], pa.list_(pa.list_(pa.int32()))),
        "parts": pa.array([[1.5, float("nan"), float("-inf"), None]]),
        "words": pa.ListArray.from_arrays(pa.array([0, 4], pa.int32()), words),
        "data": pa.StructArray.from_arrays([words.slice(1, 1), pa.array([[1.0, None]])], ["a b", "list"]),
        "pairs": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        "prices": pa.array([[Decimal("1.50"), None]], pa.list_(pa.decimal128(5, 2))),
        "spans": pa.array([[timedelta(days=1, microseconds=5)]]),
    }
    for place, write in enumerate((as_arrow, as_parquet)):
        _, codes = loaded(shop, write(tmp_path / f"file {place}", columns))
        assert codes == {}
        ((_, grid, parts, found, data, pairs, prices, spans),) = held(shop)
        assert (grid, str(parts)) == ([[1, 2], [3, None]], "[1.5, nan, -inf, None]")
        assert found == ["red", 'dark "blue"', None, ""]
        assert data == {"a b": 'dark "blue"', "list": [1.0, None]}
        assert (pairs, prices) == ([["k", 1]], [Decimal("1.50"), None])
        assert spans == [timedelta(days=1, microseconds=5)]
        shop.do("TRUNCATE shop.typed")


@pytest.mark.parametrize(("mode", "owner", "doubled"), [("insert", 1, 3), ("upsert", 3, 1)])
def test_lists_that_are_keys_and_lists_beside_texts(
    shop: Shop, tmp_path: Path, mode: str, owner: int, doubled: int
) -> None:
    """One value that only PostgreSQL can read makes texts of all columns of a batch."""
    shop.do(
        "CREATE TABLE shop.typed (id integer PRIMARY KEY, words text[] UNIQUE, days date[], codes varchar(3)[],"
        " numbers bigint[], span interval)"
    )
    columns = {
        "id": range(1, 6),
        "words": pa.array([["a", "b"], ["a"], ["a", "b"], None, []]),
        "days": pa.array([[date(2026, 1, 5), None], None, [date(2026, 1, 5), None], [date(2026, 1, 6)], []]),
        "codes": pa.array([["abc"], ["abcd"], ["abc"], None, ["é,ü", None]]),
        "numbers": pa.array([[1, -(1 << 62)], [None], [1, -(1 << 62)], [], [4]]),
        "span": pa.array([timedelta(hours=1)] * 5),
    }
    _, codes = loaded(shop, as_parquet(tmp_path / "a.parquet", columns), mode=mode)
    assert codes == {2: ["does_not_fit"], doubled: ["duplicate_key"]}
    assert {row[0]: row[1:5] for row in held(shop)} == {
        owner: (["a", "b"], [date(2026, 1, 5), None], ["abc"], [1, -(1 << 62)]),
        4: (None, [date(2026, 1, 6)], None, []),
        5: ([], [], ["é,ü", None], [4]),
    }


def test_texts_of_lists_that_are_no_texts(shop: Shop, tmp_path: Path) -> None:
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, words text[])")
    elements = pa.array([b"a", b"\xff", b"nul\0"], pa.binary()).cast(pa.string(), safe=False)
    lists: Any = pa.ListArray
    words = lists.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), elements)
    for place, rows_of in enumerate(([0, 1, 2], [0, 2])):
        columns = {"id": rows_of, "words": words.take(pa.array(rows_of))}
        declared = shop.declared("shop.typed")
        path = as_parquet(tmp_path / f"{place}.parquet", columns)
        job = imported(shop.engine, declared.name, path, declaration=declared)
        with transaction(shop.engine) as connection:
            codes = [reason["code"] for each in rejects.every(connection, job.job_id) for reason in each.reasons]
        assert codes == ["invalid_encoding", "invalid_character"][-len(rows_of) + 1 :]
        assert held(shop) == [(0, ["a"])]
        shop.do("TRUNCATE shop.typed")


def test_a_list_of_empty_lists_is_rejected(shop: Shop, tmp_path: Path) -> None:
    """PostgreSQL would read an empty array."""
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, grid text[])")
    lists = pa.array([[[], []], [["a"], ["b"]], []], pa.list_(pa.list_(pa.string())))
    _, codes = loaded(shop, as_parquet(tmp_path / "a.parquet", {"id": [1, 2, 3], "grid": lists}))
    assert codes == {1: ["invalid_array"]}
    assert held(shop) == [(2, [["a"], ["b"]]), (3, [])]


def test_an_interval_of_months_and_days(shop: Shop, tmp_path: Path) -> None:
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, value interval)")
    spans = [(1, 2, 3_000_000_000), (-1, 0, -1_000), (0, 0, 1), None]
    made: Any = pa.MonthDayNano
    values = pa.array([None if each is None else made(each) for each in spans], pa.month_day_nano_interval())
    _, codes = loaded(shop, as_arrow(tmp_path / "a.arrow", {"id": range(1, 5), "value": values}))
    assert codes == {3: ["does_not_fit"]}
    assert shop.query("SELECT value::text FROM shop.typed ORDER BY id") == [
        ("1 mon 2 days 00:00:03",),
        ("-1 mons -00:00:00.000001",),
        (None,),
    ]


def test_a_type_that_has_no_text_is_refused_at_once(shop: Shop, tmp_path: Path) -> None:
    shop.do("CREATE TABLE shop.typed (id integer PRIMARY KEY, value text)")
    types, places = pa.array([0], pa.int8()), pa.array([0], pa.int32())
    union: Any = pa.UnionArray.from_dense(types, places, [pa.array([1])])
    with pytest.raises(InvalidInput, match="the field value is of the type dense_union.* cannot be read"):
        loaded(shop, as_arrow(tmp_path / "a.arrow", {"id": [1], "value": union}))
    nowhere = pa.array([1], pa.timestamp("us", "Nowhere/Else"))
    with pytest.raises(InvalidInput, match="the field value is of the type timestamp.*Nowhere/Else"):
        loaded(shop, as_arrow(tmp_path / "b.arrow", {"id": [1], "value": nowhere}))
