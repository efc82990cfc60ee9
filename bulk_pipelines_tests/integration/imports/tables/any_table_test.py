"""Imports into tables that somebody else has made, and that nobody has declared."""

from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.shop_imports import loaded

DATES = ("2026-01-10", "2026-01-10 10:00:00+00")
HEADER = "id,customer_id,number,total,tax,ordered,paid_at,status,details,weight,items,tags,during\n"


@pytest.fixture
def imports(engine: Engine, tmp_path: Path) -> Imports:
    return Imports(engine, tmp_path)


def order(number: int, /, **values: str) -> str:
    given = {
        "id": str(number),
        "customer_id": "1",
        "number": f"N{number}",
        "total": "12.50",
        "tax": "1.5",
        "ordered": "2026-01-10",
        "paid_at": "2026-01-10 12:00:00+02",
        "status": "paid",
        "details": '"{""a"": [1, null]}"',
        "weight": "1.5e3",
        "items": "2",
        "tags": '"{a,""b c"",NULL}"',
        "during": "",
    }
    return ",".join((given | values).values()) + "\n"


def test_a_table_is_loaded_that_was_never_declared(shop: Shop, imports: Imports) -> None:
    job = loaded(shop, imports, "shop.orders", HEADER + order(1) + order(2, status="new", paid_at="", tags=""))
    assert (job.status, job.result and job.result["loaded"]) == ("COMPLETED", 2)
    assert shop.query(
        "SELECT id, number, total, tax, ordered::text, paid_at::text, status::text, details::text, weight, items, tags,"
        " made_at IS NOT NULL, twice::text FROM shop.orders ORDER BY id"
    ) == [
        (1, "N1", 12.5, 1.5, *DATES, "paid", '{"a": [1, null]}', 1500, 2, ["a", "b c", None], True, "25.00"),
        (2, "N2", 12.5, 1.5, DATES[0], None, "new", '{"a": [1, null]}', 1500, 2, None, True, "25.00"),
    ]


FAULTY = {
    "id": ("9223372036854775808", "invalid_number"),
    "customer_id": ("99", "invalid_reference"),
    "number": ("far too long", "too_long"),
    "total": ("1.005", "does_not_fit"),
    "tax": ("-1", "refused_by_table"),
    "ordered": ("2026-02-30", "invalid_date"),
    "paid_at": ("2026-01-10 12:00:00.1234567+00", "does_not_fit"),
    "status": ("lost", "invalid_value"),
    "details": ("{a}", "invalid_json"),
    "weight": ("1e400", "invalid_number"),
    "items": ("32768", "invalid_number"),
    "tags": ("{a", "invalid_array"),
    "during": ('"[2026-01-02,2026-01-01]"', "invalid_value"),
}


def test_every_value_that_does_not_fit_is_named(shop: Shop, imports: Imports) -> None:
    faulty = [order(number, **{name: value}) for number, (name, (value, _)) in enumerate(FAULTY.items(), 1)]
    job = loaded(shop, imports, "shop.orders", HEADER + "".join(faulty) + order(100))
    assert imports.codes(job) == {line: [code] for line, (_, code) in enumerate(FAULTY.values(), 2)}
    assert shop.query("SELECT id FROM shop.orders") == [(100,)]
    reasons = dict(imports.query("SELECT line, reasons -> 0 FROM rejected_row"))
    assert reasons[2] == {
        "code": "invalid_number",
        "field": "id",
        "value": "9223372036854775808",
        "detail": 'value "9223372036854775808" is out of range for type bigint',
    }
    assert "money_check" in reasons[6]["detail"]
    job = loaded(shop, imports, "shop.orders", HEADER + order(200, total="1.005") + order(201, total="x"))
    assert imports.codes(job) == {2: ["does_not_fit"], 3: ["invalid_number"]}


def test_constraints_that_only_the_table_can_judge_are_named(shop: Shop, imports: Imports) -> None:
    clean = [order(n, customer_id=str(n % 20 + 1)) for n in range(1, 200)]
    held = '"[2026-01-01,2026-01-05)"'
    job = loaded(
        shop,
        imports,
        "shop.orders",
        HEADER + "".join(clean),
        HEADER + order(300, during=held) + order(301, paid_at="") + order(302, during=held) + order(303),
    )
    assert sorted(imports.codes(job).values()) == [["refused_by_table"], ["refused_by_table"]]
    details = {row[0] for row in imports.query("SELECT reasons -> 0 ->> 'detail' FROM rejected_row")}
    assert any("orders_paid_have_a_time" in each for each in details)
    assert any("orders_never_at_once" in each for each in details)
    assert len(shop.query("SELECT FROM shop.orders")) == 201


@pytest.mark.parametrize("tables", ["shop.orders", "shop.traced"])
def test_the_first_record_of_a_key_wins_without_provenance_and_with(
    shop: Shop, imports: Imports, tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tables == "shop.traced":
        shop.do("CREATE TABLE shop.traced (LIKE shop.orders INCLUDING ALL); SELECT bulk.trace_imports('shop.traced')")
        shop.do("ALTER TABLE shop.traced ADD FOREIGN KEY (customer_id) REFERENCES shop.customers")
    shop.do(f"INSERT INTO {tables} (id, customer_id, number, total, ordered) VALUES (7, 1, 'N7', 1, '2026-01-01')")
    monkeypatch.setattr("bulk_pipelines.imports.plan.planning.RANGE_BYTES", 1_000)
    records = [order(n, weight="1") for n in range(1, 40)]
    again = [order(n, weight="2") for n in range(30, 60)] + [order(100, number="N1"), order(8, number="X")]
    job = imports.planned(
        HEADER + "".join(records + again),
        resource=tables,
        declaration=shop.declared(tables),
    )
    job = imports.worked(job)
    assert not shop.left_over()
    weights = dict(shop.query(f"SELECT id, weight FROM {tables}"))
    assert weights == {n: None if n == 7 else 1.0 if n < 40 else 2.0 for n in range(1, 60)}
    assert job.result
    assert (job.result["loaded"], job.result["rejected"]) == (58, 13)
    assert set(map(tuple, imports.codes(job).values())) == {("duplicate_key",), ("duplicate_key", "duplicate_key")}


def test_an_upsert_matches_on_any_key(shop: Shop, imports: Imports) -> None:
    loaded(shop, imports, "shop.orders", HEADER + "".join(order(n) for n in range(1, 6)))
    text = "number,total,customer_id,ordered,id\nN1,99.25,2,2026-02-01,50\nN9,1,1,2026-02-01,9\nN1,98,2,2026-02-01,51\n"
    job = loaded(shop, imports, "shop.orders", text, mode="upsert", match_on="number")
    assert job.result
    assert (job.result["loaded"], job.result["superseded"]) == (2, 1)
    assert shop.query("SELECT id, total, status::text FROM shop.orders WHERE number IN ('N1', 'N9') ORDER BY id") == [
        (1, 98, "paid"),
        (9, 1, "new"),
    ]


def test_keys_of_several_columns_and_names_in_quotes(shop: Shop, imports: Imports) -> None:
    loaded(shop, imports, "shop.orders", HEADER + order(1) + order(2))
    header = 'order_id,line,"What It Is"\n'
    job = loaded(shop, imports, "shop.lines", header + "1,1,a\n1,2,b\n2,1,c\n1,1,d\n3,1,e\n")
    assert imports.codes(job) == {5: ["duplicate_key"], 6: ["invalid_reference"]}
    job = loaded(shop, imports, "shop.lines", header + "1,1,z\n2,2,y\n", mode="upsert")
    assert shop.query('SELECT "What It Is" FROM shop.lines ORDER BY order_id, line') == [("z",), ("b",), ("c",), ("y",)]
    loaded(shop, imports, 'shop."Order Log"', 'Said\nhello\n\n"a\nb"\n')
    assert shop.query('SELECT * FROM shop."Order Log" ORDER BY 1') == [(1, "hello"), (2, "a\nb")]


def test_a_table_without_a_key_only_takes_inserts(shop: Shop, imports: Imports) -> None:
    job = loaded(shop, imports, "shop.notes", "body,missing,held\na,b,1\na,b,1\na,b,x\n")
    assert imports.codes(job) == {4: ["invalid_number"]}
    assert len(shop.query("SELECT FROM shop.notes")) == 2
    with pytest.raises(Exception, match="no key that an upsert could match on"):
        loaded(shop, imports, "shop.notes", "body\na\n", mode="upsert")


def test_partitions(shop: Shop, imports: Imports) -> None:
    text = "at,id,what\n2025-05-01,1,a\n2026-05-01,1,b\n2027-05-01,1,c\n2026-05-01,1,d\n"
    job = loaded(shop, imports, "shop.events", text)
    assert imports.codes(job) == {4: ["refused_by_table"], 5: ["duplicate_key"]}
    assert shop.query("SELECT what FROM shop.events_2026") == [("b",)]


def test_validating_loads_nothing_and_reports_the_same(shop: Shop, imports: Imports) -> None:
    text = HEADER + order(1) + order(2, total="x") + order(1) + order(3, paid_at="") + order(4, customer_id="99")
    declared = shop.declared("shop.orders")
    job = loaded(shop, imports, "shop.orders", text, validate_only=True)
    expected = {3: ["invalid_number"], 4: ["duplicate_key", "duplicate_key"], 5: ["refused_by_table"]}
    assert imports.codes(job) == expected | {6: ["invalid_reference"]}
    assert not shop.query("SELECT FROM shop.orders")
    assert declared.keys


CHECKED = """
CREATE TABLE shop.checked (
    id integer PRIMARY KEY,
    code char(3) CHECK (octet_length(code) = 3),
    share integer CHECK (10 / share > 0),
    word text,
    added integer DEFAULT 7 CHECK (added = 7),
    CONSTRAINT "not 50%% of 'it'" CHECK (word <> '50% of ''it''')
)
"""
MENDS = """
CREATE FUNCTION shop.mends() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW.share = 20 THEN NEW.share := 2; END IF; RETURN NEW; END $$;
CREATE TRIGGER mends BEFORE INSERT ON shop.checked FOR EACH ROW EXECUTE FUNCTION shop.mends();
"""
BROKEN = [("ab", "20", "x"), ("ab", "2", "50% of 'it'"), ("ab", "20", "50% of 'it'"), ("", "2", "x")]


@pytest.mark.parametrize("triggered", [False, True], ids=["as sent", "changed by a trigger"])
@pytest.mark.parametrize("more", [[], [("ab", "0", "x")]], ids=["", "with a condition that fails"])
def test_a_check_is_named_as_postgresql_names_it(
    shop: Shop, imports: Imports, triggered: bool, more: list[tuple[str, str, str]]
) -> None:
    shop.do(CHECKED + ";" + MENDS * triggered)
    records = [("ab", "2", "x")] * 40 + BROKEN + more
    said = {}
    for line, (code, share, word) in enumerate(records, 2):
        with transaction(shop.engine) as connection, connection.transaction(force_rollback=True):
            try:
                values = [line, code or None, share, word]
                connection.execute("INSERT INTO shop.checked (id, code, share, word) VALUES (%s, %s, %s, %s)", values)
            except psycopg.Error as error:
                said[line] = error.diag.message_primary
    text = "".join(f"{line},{','.join(values)}\n" for line, values in enumerate(records, 2))
    job = loaded(shop, imports, "shop.checked", "id,code,share,word\n" + text)
    assert {line: ["refused_by_table"] for line in said} == imports.codes(job)
    assert dict(imports.query("SELECT line, reasons -> 0 ->> 'detail' FROM rejected_row")) == said
    assert len(shop.query("SELECT FROM shop.checked")) == len(records) - len(said)
    assert len(said) == (2 if triggered else 3) + len(more)
