"""What is told of the values and fields of a file means the same in every format, and in what is run again."""

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.afterwards import outcomes, replays
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan import fitting
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.report.preview import preview
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.storage.access import access_of
from bulk_pipelines_tests.scenes import shop as shops
from bulk_pipelines_tests.scenes.people_files import zipped
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.whole_imports import begun, imported, worked

pytestmark = pytest.mark.usefixtures("home")

Records = Sequence[Mapping[str, Any]]
BY = Actor("me", "cli", admin=True)


@pytest.fixture
def shop(engine: Engine) -> Shop:
    shop = shops.opened(engine)
    shop.do(
        "CREATE TABLE shop.sales (id integer PRIMARY KEY, customer integer REFERENCES shop.customers,"
        " price numeric, ratio double precision, note text, details jsonb)"
    )
    return shop


def ndjson(records: Records) -> bytes:
    return "".join(json.dumps(each, default=float) + "\n" for each in records).encode()


def array(records: Records) -> bytes:
    return json.dumps(list(records), default=float).encode()


def xlsx(records: Records) -> bytes:
    book, out = openpyxl.Workbook(write_only=True), io.BytesIO()
    sheet = book.create_sheet("Sales")
    sheet.append(list(records[0]))
    for each in records:
        sheet.append(list(each.values()))
    book.save(out)
    return out.getvalue()


def parquet(records: Records) -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pylist([dict(each) for each in records]), out)
    return out.getvalue()


def arrow(records: Records) -> bytes:
    table, out = pa.Table.from_pylist([dict(each) for each in records]), io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


TYPED: dict[str, Callable[[Records], bytes]] = {
    "ndjson": ndjson,
    "json": array,
    "xlsx": xlsx,
    "parquet": parquet,
    "arrow": arrow,
}
"""The formats in which numbers are no texts."""


def loaded(shop: Shop, path: Path, data: bytes, **told: Any) -> Job:
    path.write_bytes(data)
    declared = shop.declared("shop.sales")
    return imported(shop.engine, declared.name, path, declaration=declared, reading=Reading.of(told))


def rejected(shop: Shop, job: Job) -> dict[int, list[str]]:
    with transaction(shop.engine) as connection:
        return {
            each.line: [reason["code"] for reason in each.reasons] for each in rejects.every(connection, job.job_id)
        }


def again(shop: Shop, job: Job, tmp_path: Path, *, by_hand: bool) -> Job:
    """Run the rejects again, as they were kept or as they are downloaded."""
    if by_hand:
        _, pieces = outcomes.download(lambda: transaction(shop.engine), job, outcomes.Outcome.FAILED)
        path = tmp_path / "failed"
        path.write_bytes(b"".join(pieces))
        with transaction(shop.engine) as connection:
            replay = replays.replay_mended(connection, job.job_key, [RequestedFile.of(str(path))], BY).job
    else:
        chosen = settings.current()
        replay = replays.replay(shop.engine, job.job_key, landing.place(chosen), access_of(chosen), BY).job
    return worked(shop.engine, begun(shop.engine, replay))


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("format_", TYPED)
def test_what_is_spelt_as_no_value_is_none(shop: Shop, tmp_path: Path, format_: str, by_hand: bool) -> None:
    """A spelling is no text in what is run again, either."""
    values = {"price": -999, "ratio": -999.0, "note": "n/a", "details": "n/a"}
    records = [{"id": 1, "customer": 1, **values}, {"id": 2, "customer": 99, **values}]
    job = loaded(shop, tmp_path / "sales", TYPED[format_](records), nulls=["n/a", "-999", "-999.0"])
    assert list(rejected(shop, job).values()) == [["invalid_reference"]]
    shop.do("INSERT INTO shop.customers VALUES (99, 'z@z.z', 'Z')")
    assert again(shop, job, tmp_path, by_hand=by_hand).status is JobState.COMPLETED
    found = shop.query("SELECT id, price, ratio, note, details FROM shop.sales ORDER BY id")
    assert found == [(1, None, None, None, None), (2, None, None, None, None)]


TEXTS = [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_no_value_is_spelt_in_every_type_of_text(shop: Shop, tmp_path: Path, kind: pa.DataType) -> None:
    note: Any = pa.array(["n/a", "a"], pa.string()).cast(kind)
    out = io.BytesIO()
    table = pa.table({"id": [1, 2], "price": [Decimal("-999.00"), Decimal("1.50")], "note": note})
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    loaded(shop, tmp_path / "sales", out.getvalue(), nulls=["n/a", "-999"])
    assert shop.query("SELECT price::text, note FROM shop.sales ORDER BY id") == [(None, None), ("1.50", "a")]


@pytest.mark.parametrize("active", ['"n/a"', '"n/a", "shoe": 1'])
def test_no_value_is_spelt_in_json_of_a_resource(engine: Engine, tmp_path: Path, active: str) -> None:
    """A record that is not as the others are is looked at by itself, and comes to the same."""
    records = f'{{"email": "a@x.org", "name": "A", "role": "reader", "active": {active}}}\n'
    (tmp_path / "users").write_text(records + '{"email": "n/a", "name": "B", "role": "reader"}\n')
    imported(engine, "users", tmp_path / "users", reading=Reading.of({"nulls": "n/a", "ignore_extra": True}))
    with transaction(engine) as connection:
        assert connection.execute("SELECT email, active FROM users").fetchall() == [("a@x.org", True)]


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("format_", TYPED)
def test_a_number_of_the_file_has_no_decimal_comma(shop: Shop, tmp_path: Path, format_: str, by_hand: bool) -> None:
    numbers = [1.234, 0.125, 1.5, 1234.5, -1e-7, 12]
    records = [
        {"id": place, "customer": 1 + place % 2 * 98, "price": number, "ratio": number, "note": "1.234"}
        for place, number in enumerate(numbers)
    ]
    job = loaded(shop, tmp_path / "sales", TYPED[format_](records), decimal="comma")
    assert list(rejected(shop, job).values()) == [["invalid_reference"]] * 3
    shop.do("INSERT INTO shop.customers VALUES (99, 'z@z.z', 'Z')")
    assert again(shop, job, tmp_path, by_hand=by_hand).status is JobState.COMPLETED
    found = shop.query("SELECT price, ratio, note FROM shop.sales ORDER BY id")
    assert found == [(Decimal(repr(number)), number, "1.234") for number in numbers]


@pytest.mark.parametrize("format_", ["xlsx", "ndjson"])
def test_a_text_beside_numbers_has_one(shop: Shop, tmp_path: Path, format_: str) -> None:
    """Whether a value is a number or a text is told cell by cell."""
    given = [1.234, "1.234", "1.234,5", "0.125", "0,125", True]
    data = TYPED[format_]([{"id": place, "price": price} for place, price in enumerate(given)])
    job = loaded(shop, tmp_path / "sales", data, decimal="comma")
    assert list(rejected(shop, job).values()) == [["invalid_number"]] * 2
    found = shop.query("SELECT id, price::text FROM shop.sales ORDER BY id")
    assert found == [(0, "1.234"), (1, "1234"), (2, "1234.5"), (4, "0.125")]


def test_what_is_no_finite_number_needs_no_comma(shop: Shop, tmp_path: Path) -> None:
    data = parquet([{"id": 1, "price": math.nan}, {"id": 2, "price": -math.inf}])
    assert rejected(shop, loaded(shop, tmp_path / "sales", data, decimal="comma")) == {}
    loaded(shop, tmp_path / "sales", b"id;price\n3;NaN\n4;Infinity\n", decimal="comma")
    found = shop.query("SELECT price::text FROM shop.sales ORDER BY id")
    assert found == [("NaN",), ("-Infinity",), ("NaN",), ("Infinity",)]


@pytest.mark.parametrize("format_", ["xlsx", "parquet"])
def test_a_number_that_becomes_a_text_keeps_its_point(shop: Shop, tmp_path: Path, format_: str) -> None:
    data = TYPED[format_]([{"id": 1, "note": 1.234, "details": 0.5}])
    loaded(shop, tmp_path / "sales", data, decimal="comma")
    assert shop.query("SELECT note, details::text FROM shop.sales") == [("1.234", "0.5")]


def test_files_of_an_archive_have_numbers_of_their_own(shop: Shop, tmp_path: Path) -> None:
    data = zipped(
        ("a.csv", b"id;price\n1;1,234\n"),
        ("b.xlsx", xlsx([{"id": 2, "price": 1.234}])),
        ("c.parquet", parquet([{"id": 3, "price": Decimal("1.234")}])),
    )
    loaded(shop, tmp_path / "sales.zip", data, decimal="comma")
    assert shop.query("SELECT price::text FROM shop.sales ORDER BY id") == [("1.234",)] * 3


@pytest.mark.parametrize(
    "between", [".", " ", "'", "\N{RIGHT SINGLE QUOTATION MARK}", "\xa0", "\N{NARROW NO-BREAK SPACE}"]
)
def test_thousands_are_grouped_as_people_do(shop: Shop, tmp_path: Path, between: str) -> None:
    data = f"id;price\n1;1{between}234{between}567,8\n2;1{between}23\n".encode()
    job = loaded(shop, tmp_path / "sales.csv", data, decimal="comma")
    assert shop.query("SELECT price::text FROM shop.sales") == [("1234567.8",)]
    assert rejected(shop, job) == {3: ["invalid_number"]}


@pytest.mark.parametrize("format_", ["csv", "ndjson"])
def test_money_has_the_decimal_sign_of_its_server(shop: Shop, tmp_path: Path, format_: str) -> None:
    """PostgreSQL reads `1,5` as 15 where money has a decimal point."""
    shop.do("ALTER TABLE shop.sales ADD paid money")
    data = b"id;paid\n1;1,5\n" if format_ == "csv" else ndjson([{"id": 1, "paid": "1,5"}])
    with pytest.raises(InvalidInput, match="paid is money, which the server reads by its own lc_monetary"):
        loaded(shop, tmp_path / f"sales.{format_}", data, decimal="comma")
    loaded(shop, tmp_path / f"sales.{format_}", data, decimal="comma", ignore=("paid",))
    assert shop.query("SELECT id, paid FROM shop.sales") == [(1, None)]


@pytest.mark.parametrize("price", ["0.125", "-0.125", "00.125", "012.345"])
def test_no_thousands_are_grouped_behind_a_zero(shop: Shop, tmp_path: Path, price: str) -> None:
    job = loaded(shop, tmp_path / "sales.csv", f"id;price\n1;{price}\n2;1.250\n".encode(), decimal="comma")
    assert (rejected(shop, job), shop.query("SELECT price FROM shop.sales")) == ({2: ["invalid_number"]}, [(1250,)])


def test_a_number_that_an_expression_gives_has_no_decimal_comma(shop: Shop, tmp_path: Path) -> None:
    told = {"price": "replace(net, ',', '.')::numeric * 1.5", "ratio": "net", "note": "length(net) / 8.0"}
    data = b"id;net\n1;0,25\n2;0,823\n"
    job = loaded(shop, tmp_path / "sales.csv", data, decimal="comma", expressions=told)
    assert rejected(shop, job) == {}
    found = shop.query("SELECT price::text, ratio, note::numeric FROM shop.sales ORDER BY id")
    assert found == [("0.375", 0.25, Decimal("0.5")), ("1.2345", 0.823, Decimal("0.625"))]


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("format_", [*TYPED, "csv"])
def test_one_field_goes_to_two_columns(shop: Shop, tmp_path: Path, format_: str, by_hand: bool) -> None:
    """Each column has its own type, and what it would have if the field went to it alone."""
    records = [{"id": 1, "customer": 1, "X": 0.123456789012}, {"id": 2, "customer": 99, "X": 0.5}]
    shop.do("ALTER TABLE shop.sales ALTER ratio TYPE real")
    told = {"map": {"ratio": "X", "price": "X", "note": "x"}}
    data = TYPED[format_](records) if format_ in TYPED else b"id,customer,X\n1,1,0.123456789012\n2,99,0.5\n"
    job = loaded(shop, tmp_path / "sales", data, **told)
    shop.do("INSERT INTO shop.customers VALUES (99, 'z@z.z', 'Z')")
    assert again(shop, job, tmp_path, by_hand=by_hand).status is JobState.COMPLETED
    found = shop.query("SELECT ratio::text, price::text, note FROM shop.sales ORDER BY id")
    assert found == [("0.12345679", "0.123456789012", "0.123456789012"), ("0.5", "0.5", "0.5")]


def test_one_field_of_json_is_no_json_and_text_at_once(shop: Shop, tmp_path: Path) -> None:
    data = ndjson([{"id": 1, "X": "x"}])
    with pytest.raises(InvalidInput, match="X cannot go to note and details, because one is JSON and one is not"):
        loaded(shop, tmp_path / "sales", data, map={"note": "X", "details": "X"})


@pytest.mark.parametrize("format_", ["parquet", "arrow", "xlsx", "json"])
def test_an_expression_reads_the_fields_of_columns_that_are_no_texts(shop: Shop, tmp_path: Path, format_: str) -> None:
    data = TYPED[format_]([{"id": 4, "ratio": 0.5}])
    loaded(shop, tmp_path / "sales", data, expressions={"price": "id::int * 1.5", "note": "ratio || '!'"})
    assert shop.query("SELECT id, price::text, note, ratio FROM shop.sales") == [(4, "6.0", "0.5!", 0.5)]


IDLE: list[tuple[str, dict[str, Any], str]] = [
    ("parquet", {"skip_lines": 2}, "skip_lines: has no meaning in arrow or parquet: leave it out"),
    ("arrow", {"no_header": True}, "no_header: has no meaning in arrow or parquet: leave it out"),
    ("parquet", {"encoding": "cp1252"}, "encoding: has no meaning in arrow or parquet: leave it out"),
    ("ndjson", {"no_header": True}, "no_header: has no meaning in ndjson: leave it out"),
    ("ndjson", {"delimiter": ";"}, "delimiter: has no meaning in ndjson: leave it out"),
    ("json", {"sheet": "Sales"}, "sheet: has no meaning in json: leave it out"),
    ("xlsx", {"quote": "'"}, "quote: has no meaning in xlsx: leave it out"),
]


@pytest.mark.parametrize(("format_", "told", "message"), IDLE)
def test_an_option_that_has_no_meaning_in_a_format_is_refused(
    shop: Shop, tmp_path: Path, format_: str, told: dict[str, Any], message: str
) -> None:
    """Every door says so in the same words."""
    data = TYPED[format_]([{"id": 1, "note": "a"}, {"id": 2, "note": "b"}, {"id": 3, "note": "c"}])
    path, declared = tmp_path / "sales", shop.declared("shop.sales")
    asked, chosen = Options(declared.name, declaration=declared, reading=Reading.of(told)), settings.current()
    with pytest.raises(InvalidInput, match=message):
        loaded(shop, path, data, **told)
    with pytest.raises(InvalidInput, match=message):
        fitting.refuse_unfit(asked, RequestedFile.of(str(path)), chosen)
    assert preview(shop.engine, asked, RequestedFile.of(str(path)), chosen).problem == message


def test_an_option_may_be_meant_for_another_file(shop: Shop, tmp_path: Path) -> None:
    given = {"a.csv": b"id;note\n1;a\n", "b.xlsx": xlsx([{"id": 2, "note": "b"}])}
    path = tmp_path / "sales.zip"
    job = loaded(shop, path, zipped(*given.items()), delimiter=";", sheet="Sales")
    assert job.status is JobState.COMPLETED
    declared = shop.declared("shop.sales")
    asked = Options(declared.name, declaration=declared, reading=Reading.of({"delimiter": ";", "sheet": "Sales"}))
    fitting.refuse_unfit(asked, RequestedFile.of(str(path)), settings.current())
    assert preview(shop.engine, asked, RequestedFile.of(str(path)), settings.current()).problem is None
    shop.do("TRUNCATE shop.sales")
    for name, data in given.items():
        (tmp_path / name).write_bytes(data)
    several = [tmp_path / name for name in given]
    job = imported(shop.engine, declared.name, *several, declaration=declared, reading=asked.reading)
    assert (job.status, shop.query("SELECT count(*) FROM shop.sales")) == (JobState.COMPLETED, [(2,)])
    with pytest.raises(InvalidInput, match="sheet: has no meaning in csv or ndjson: leave it out"):
        data = zipped(("a.csv", given["a.csv"]), ("c.ndjson", b'{"id": 3, "note": "c"}'))
        loaded(shop, path, data, sheet="Sales")
