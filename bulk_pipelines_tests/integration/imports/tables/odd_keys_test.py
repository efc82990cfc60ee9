"""Keys as tables of other people have them. Of a composite type, a value some of whose fields are missing is a value
all the same."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.exports import filters, streaming
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.imports.plan import planning
from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.shop_imports import loaded

pytestmark = pytest.mark.usefixtures("home")

TABLES = """
CREATE TYPE shop.spot AS (shelf integer, tray text);
CREATE TABLE shop.spots (at shop.spot PRIMARY KEY);
CREATE TABLE shop.goods (spot shop.spot PRIMARY KEY, name text, CHECK (name <> 'bad'));
CREATE TABLE shop.stock (id integer PRIMARY KEY, spot shop.spot REFERENCES shop.spots);
INSERT INTO shop.spots VALUES ('(1,)'), ('(,)');
INSERT INTO shop.goods VALUES ('(1,)', 'held');
"""
GOODS = 'spot,name\n"(2,)",first\n"(,)",bad\n"(2,)",second\n"(1,)",third\n"(,)",fourth\n'


@pytest.fixture
def imports(shop: Shop, engine: Engine, tmp_path: Path) -> Imports:
    shop.do(TABLES)
    return Imports(engine, tmp_path)


def goods(shop: Shop) -> list[tuple[str, ...]]:
    return shop.query("SELECT spot::text, name FROM shop.goods ORDER BY 1")


def test_the_first_record_of_a_key_owns_it(shop: Shop, imports: Imports) -> None:
    job = loaded(shop, imports, "shop.goods", GOODS)
    duplicate = ["duplicate_key"]
    assert imports.codes(job) == {3: ["refused_by_table"], 4: duplicate, 5: duplicate, 6: duplicate}
    assert goods(shop) == [("(1,)", "held"), ("(2,)", "first")]


def test_the_last_record_of_a_key_is_merged(shop: Shop, imports: Imports) -> None:
    job = loaded(shop, imports, "shop.goods", GOODS, mode="upsert")
    assert imports.codes(job) == {}
    assert (job.result or {})["superseded"] == 2
    assert goods(shop) == [("(,)", "fourth"), ("(1,)", "third"), ("(2,)", "second")]


def test_a_reference_leads_somewhere_or_nowhere(shop: Shop, imports: Imports) -> None:
    job = loaded(shop, imports, "shop.stock", 'id,spot\n1,"(1,)"\n2,"(,)"\n3,"(2,)"\n4,"(,x)"\n5,\n1,\n')
    assert imports.codes(job) == {4: ["invalid_reference"], 5: ["invalid_reference"], 7: ["duplicate_key"]}
    assert shop.query("SELECT id, spot::text FROM shop.stock ORDER BY 1") == [(1, "(1,)"), (2, "(,)"), (5, None)]


@pytest.mark.parametrize("rule", ["UNIQUE NULLS NOT DISTINCT (seat)", "EXCLUDE (seat WITH =)"])
def test_a_record_is_not_refused_for_one_that_goes_again(
    shop: Shop, imports: Imports, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """The record in line 3 is loaded before anybody knows that the one in line 2 owns its id. Meanwhile the table
    refuses the one in line 4 for its sake."""
    monkeypatch.setattr(planning, "RANGE_BYTES", 4)
    shop.do(
        f"CREATE TABLE shop.guests (id integer PRIMARY KEY, seat text, {rule}); INSERT INTO shop.guests VALUES (8, 'a')"
    )
    job = loaded(shop, imports, "shop.guests", "id,seat\n2,a\n2,b\n4,b\n")
    assert imports.codes(job) == {2: ["refused_by_table"], 3: ["duplicate_key"]}
    assert shop.query("SELECT id, seat FROM shop.guests ORDER BY id") == [(4, "b"), (8, "a")]


@pytest.mark.parametrize("new", [0, 100])
@pytest.mark.parametrize("mode", ["insert", "upsert", "validate"])
def test_a_record_without_a_key_is_loaded_or_rejected(shop: Shop, imports: Imports, mode: str, new: int) -> None:
    """If a trigger leaves out some rows of a batch, somebody must tell which ones are in the table. A trigger may also
    give rows other keys."""
    shop.do(f"""CREATE TABLE shop.slots (id integer UNIQUE, v integer); SELECT bulk.trace_imports('shop.slots');
        CREATE FUNCTION shop.none() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.v = 8 THEN RETURN NULL; END IF; NEW.id = NEW.id + {new}; RETURN NEW; END $$;
        CREATE TRIGGER none BEFORE INSERT ON shop.slots FOR EACH ROW EXECUTE FUNCTION shop.none()""")
    options = {"validate_only": True} if mode == "validate" else {"mode": mode}
    job = loaded(shop, imports, "shop.slots", "id,v\n,1\n2,8\n,8\n,3\n4,4\n", **options)
    assert imports.codes(job) == {3: ["refused_by_table"], 4: ["refused_by_table"]}
    loaded_rows = [] if mode == "validate" else [(None, 1), (None, 3), (4 + new, 4)]
    assert shop.query("SELECT id, v FROM shop.slots ORDER BY v") == loaded_rows


def test_two_keys_of_the_same_columns_are_one_reason(shop: Shop, imports: Imports) -> None:
    shop.do("CREATE TABLE shop.twice (id integer PRIMARY KEY, UNIQUE (id) DEFERRABLE)")
    job = loaded(shop, imports, "shop.twice", "id\n1\n1\n")
    assert imports.codes(job) == {3: ["duplicate_key"]}
    assert shop.query("SELECT id FROM shop.twice") == [(1,)]


def test_a_filter_takes_it_for_a_value(shop: Shop, imports: Imports) -> None:
    shop.do("INSERT INTO shop.stock VALUES (1, '(1,)'), (2, '(,)'), (3, NULL)")
    declared = shop.declared("shop.stock")

    def found(text: str) -> list[str]:
        request = ExportRequest(
            declared.name, Format.CSV, ("id",), declaration=declared, filters=(filters.parse(text),)
        )
        return b"".join(streaming.stream(shop.engine, request)).decode().splitlines()[1:]

    assert (found("spot is null"), sorted(found("spot is not null"))) == (["3"], ["1", "2"])
