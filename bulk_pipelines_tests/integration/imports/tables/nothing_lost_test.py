"""No value loses a part on its way into a table without a word: PostgreSQL itself drops some, which COPY would hide."""

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.resources import comparing
from bulk_pipelines_tests.scenes import shop as shops
from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.whole_imports import imported

pytestmark = pytest.mark.usefixtures("home")

KEPT: dict[str, list[str]] = {
    "date": [
        "2026-01-05T00:00:00",
        "2026-01-05 00:00",
        "infinity",
        "5874897-12-31",
        "January 5, 2026",
        "20260105",
        "now",
    ],
    "timestamp": ["2026-01-05T10:00:00Z", "2026-01-05 10:00:00+00", "2026-01-05 10:00 UTC", "-infinity", "now"],
    "time": ["12:30", "24:00:00", "12:30:00+00", "12:30 PM", "T123000", "allballs", "12:30:00.5-00"],
    "timetz": [
        "12:30+02",
        "12:30 PM",
        "T12:30-03:30",
        "12:30",
        "12:30:00.5-05",
        "12:30:00.123456-03:30",
        "123000.5-05",
    ],
    "money": ["1.50", "$1,234.56", "-3", "1.500", "(5)"],
    "name": ["x" * 63, "é"],
    '"char"': ["a", "\\377"],
    "oid": ["7", "4294967295"],
    "numeric(5,2)[]": ["{1.50,NULL}", "[1.5, 2.500]", "{{1.5},{2}}", "[2:3]={1,2.50}", "{}"],
    "varchar(3)[]": ["{abc,ab}", '{"a,b"}'],
    "date[]": ["{2026-01-05,NULL}", "{2026-01-05T00:00}", '{"January 5, 2026"}', '["2026-01-05"]', "{infinity}"],
    "timestamp(0)[]": ['{"2026-01-05 10:00:00"}', "{2026-01-05T10:00:00.000Z}"],
    "timestamp[]": ["{2026-01-05T10:00:00.123456}", "{2026-01-05T10:00:00.1234560}"],
    "timestamptz[]": ["{2026-01-05T10:00:00.123456+05}"],
    "time[]": ["{12:30,24:00}", "{12:30+00}"],
    "timetz[]": ["{12:30:00.123-05}"],
    "interval[]": ["{1 day,00:00:00.1234560}"],
    "money[]": ['{"$1,234.56",(5)}'],
    "tsrange": ["[2026-01-05,2026-01-06)", '["2026-01-05 10:00+00",]', "empty", " (,) ", "EMPTY"],
    "tstzrange": ['["2026-01-05 10:00+05","2026-01-06 10:00:00.123456+05")'],
    "daterange": ["[2026-01-05,2026-01-06]", '(,"January 5, 2026"]', "[2026-01-05T00:00,)"],
    "datemultirange": ["{[2026-01-05,2026-01-06],[2026-02-05,]}", "{}"],
    "numrange[]": ['{"[1.005,2)",empty}'],
    "shop.prices": ["[1.50,2)", "empty", '["1.5",]'],
    "shop.pricings": ["{[1.50,2),[3,)}"],
    "shop.cents[]": ["{1.50,NULL}", '{"2"}'],
    "shop.days": ["{2026-01-05}", "[2:2]={2026-01-05}"],
    "shop.part": ["(1.50,2026-01-05,abc)", "(,,)", '(1.5,"January 5, 2026","a,b")', '(1,,"")'],
    "shop.part[]": ['{"(1.50,2026-01-05,abc)",NULL}'],
    "shop.whole": ['("(1.50,2026-01-05,abc)","{1.005}")'],
    "shop.colour[]": ["{red,NULL}"],
}
LOST: dict[str, list[str]] = {
    "date": ["2026-01-05T13:45:00", "2026-01-05 00:00:00.5", "20260105T101010", "2026-01-05 10:00 PM"],
    "timestamp": [
        "2026-01-05T10:00:00+05",
        "2026-01-05 10:00 Europe/Berlin",
        "2026-01-05 10:00:00-03:30",
        "20260105T101010+05",
    ],
    "time": [
        "12:30+02",
        "12:30-00:30",
        "2026-01-05 12:30",
        "2026-Jan-05 12:30",
    ],
    "timetz": ["2026-01-05 12:30+02", "2026-Jan-05 12:30+02", "2026-01-05 12:30:00.5-05", "05/Jan/2026 12:30+02"],
    "money": ["1.005", "$1,234.567"],
    "name": ["x" * 64, "é" * 32],
    '"char"': ["ab", "é"],
    "oid": ["-1"],
    "numeric(5,2)[]": ["{1.50,1.005}", "[1.005]", "{{1.5},{2.001}}"],
    "varchar(3)[]": ['{"abc "}'],
    "date[]": ["{2026-01-05,2026-01-05T13:45}", '["2026-01-05 10:00"]'],
    "timestamp(0)[]": ["{2026-01-05T10:00:00.5}", "{2026-01-05T10:00:00+05}", "{2026-01-05T10:00:00.0000001}"],
    "timestamp[]": ["{2026-01-05T10:00:00.1234567}", '{"2026-01-05 10:00 Europe/Berlin"}'],
    "timestamptz[]": ["{2026-01-05T10:00:00.1234567+05}"],
    "time[]": ["{12:30+02}", "{12:30:00.1234567}"],
    "timetz[]": ['{"2026-01-05 12:30:00.123-05"}'],
    "interval[]": ["{00:00:00.1234567}"],
    "money[]": ["{1.005}"],
    "tsrange": ['["2026-01-05 10:00+05",]', "(,2026-01-05T10:00:00.1234567)"],
    "tstzrange": ['["2026-01-05 10:00:00.1234567+05",)'],
    "daterange": ["[2026-01-05T13:45,)", '(,"2026-01-05 10:00"]'],
    "datemultirange": ["{[2026-01-05,2026-01-06],[2026-02-05T10:00,]}"],
    "numrange[]": [],
    "shop.prices": ["[1.505,2)", "(,1.001]"],
    "shop.pricings": ["{[1.50,2),[3.001,)}"],
    "shop.cents[]": ["{1.505}"],
    "shop.days": ["{2026-01-05T13:45}"],
    "shop.part": ["(1.505,2026-01-05,abc)", "(1,2026-01-05T13:45,abc)", '(1,,"abc ")'],
    "shop.part[]": ['{"(1.505,2026-01-05,abc)"}'],
    "shop.whole": ['("(1.50,2026-01-05T13:45,abc)","{1}")'],
    "shop.colour[]": [],
}
KINDS = """
CREATE DOMAIN shop.cents AS numeric(5,2) CHECK (VALUE >= 0);
CREATE DOMAIN shop.days AS date[];
CREATE TYPE shop.part AS (price numeric(5,2), day date, note varchar(3));
CREATE TYPE shop.whole AS (part shop.part, weights numeric[]);
CREATE TYPE shop.prices AS RANGE (subtype = shop.cents, multirange_type_name = shop.pricings);
CREATE TYPE shop.colour AS ENUM ('red', 'green');
"""


@pytest.fixture
def shop(engine: Engine) -> Shop:
    return shops.opened(engine)


@pytest.fixture
def imports(engine: Engine, tmp_path: Path) -> Imports:
    return Imports(engine, tmp_path)


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize("kind", KEPT)
def test_a_value_is_kept_whole_or_rejected(shop: Shop, imports: Imports, kind: str, mode: str) -> None:
    shop.do(f"{KINDS} CREATE TABLE shop.kept (id integer PRIMARY KEY, value {kind})")
    declared = shop.declared("shop.kept")
    kept, lost = KEPT[kind], LOST[kind]
    text = io.StringIO()
    rows = [(str(place), value) for place, value in enumerate([*kept, *lost], 2)]
    csv.writer(text, lineterminator="\n").writerows([("id", "value"), *rows])
    job = imports.worked(imports.planned(text.getvalue(), resource=declared.name, declaration=declared, mode=mode))
    rejected = imports.codes(job)
    assert rejected == {line: ["does_not_fit"] for line in range(2 + len(kept), 2 + len(kept) + len(lost))}
    assert shop.query("SELECT id FROM shop.kept ORDER BY id") == [(place,) for place in range(2, 2 + len(kept))]


def test_tables_of_arrow_lose_nothing_either(shop: Shop, engine: Engine, tmp_path: Path) -> None:
    """A number that a narrower type has not, and a time of day in a date."""
    shop.do("CREATE TABLE shop.narrow (id integer PRIMARY KEY, small real, born date)")
    declared = shop.declared("shop.narrow")
    columns: dict[str, Any] = {
        "id": [1, 2, 3, 4, 5],
        "small": pa.array([1.5, 1e300, 1e-60, float("inf"), None], pa.float64()),
        "born": pa.array([0, 0, 0, 0, 3_600_000], pa.timestamp("ms")),
    }
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "narrow.parquet")
    job = imported(engine, declared.name, tmp_path / "narrow.parquet", declaration=declared)
    assert Imports(engine, tmp_path).codes(job) == {
        2: ["invalid_number"],
        3: ["invalid_number"],
        5: ["does_not_fit"],
    }
    assert shop.query("SELECT id, small FROM shop.narrow ORDER BY id") == [(1, 1.5), (4, float("inf"))]


def test_a_type_that_the_server_cannot_read(shop: Shop, imports: Imports) -> None:
    """A server without libxml has the type xml and reads no value of it; one with it reads no torn value."""
    shop.do("CREATE TABLE shop.torn (id integer PRIMARY KEY, page xml)")
    declared = shop.declared("shop.torn")
    job = imports.worked(imports.planned("id,page\n1,<a>\n2,\n", resource=declared.name, declaration=declared))
    assert imports.codes(job) == {2: ["invalid_value"]}
    assert shop.query("SELECT id FROM shop.torn") == [(2,)]


def test_a_declaration_that_is_older_than_its_word_for_empty_texts(shop: Shop, engine: Engine) -> None:
    """The older declaration goes on to take an empty text for no value, and a check says so."""
    shop.do("CREATE TABLE shop.found (id integer PRIMARY KEY, words tsvector)")
    declared = shop.declared("shop.found")
    older = replace(declared, columns=tuple(replace(column, takes_empty=False) for column in declared.columns))
    with transaction(engine) as connection:
        assert comparing.differences(connection, declared) == []
        (found,) = comparing.differences(connection, older)
    assert not found.grave
    assert found.said == (
        "its column words takes an empty text as a value, but the declaration says that it is none, so NULL is loaded:"
        " `bulk resources adopt shop.found --again` makes the declaration anew"
    )
