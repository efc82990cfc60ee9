"""No value loses a part on its way into a table without a word: PostgreSQL itself drops some, which COPY would hide."""

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
    "time": ["12:30", "24:00:00", "12:30:00+00", "12:30 PM"],
    "money": ["1.50", "$1,234.56", "-3", "1.500", "(5)"],
    "name": ["x" * 63, "é"],
    '"char"': ["a", "\\377"],
    "oid": ["7", "4294967295"],
}
LOST: dict[str, list[str]] = {
    "date": ["2026-01-05T13:45:00", "2026-01-05 00:00:00.5", "20260105T101010", "2026-01-05 10:00 PM"],
    "timestamp": [
        "2026-01-05T10:00:00+05",
        "2026-01-05 10:00 Europe/Berlin",
        "2026-01-05 10:00:00-03:30",
        "20260105T101010+05",
    ],
    "time": ["12:30+02", "12:30-00:30"],
    "money": ["1.005", "$1,234.567"],
    "name": ["x" * 64, "é" * 32],
    '"char"': ["ab", "é"],
    "oid": ["-1"],
}


@pytest.fixture
def shop(engine: Engine) -> Shop:
    return shops.opened(engine)


@pytest.fixture
def imports(engine: Engine, tmp_path: Path) -> Imports:
    return Imports(engine, tmp_path)


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize("kind", KEPT)
def test_a_value_is_kept_whole_or_rejected(shop: Shop, imports: Imports, kind: str, mode: str) -> None:
    shop.do(f"CREATE TABLE shop.kept (id integer PRIMARY KEY, value {kind})")
    declared = shop.declared("shop.kept")
    kept, lost = KEPT[kind], LOST[kind]
    lines = [f'{place},"{value}"\n' for place, value in enumerate([*kept, *lost], 2)]
    job = imports.worked(
        imports.planned("id,value\n" + "".join(lines), resource=declared.name, declaration=declared, mode=mode)
    )
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
    """It goes on to take an empty text for no value, and a check says so."""
    shop.do("CREATE TABLE shop.found (id integer PRIMARY KEY, words tsvector)")
    declared = shop.declared("shop.found")
    older = replace(declared, columns=tuple(replace(column, takes_empty=False) for column in declared.columns))
    with transaction(engine) as connection:
        assert comparing.differences(connection, declared) == []
        (found,) = comparing.differences(connection, older)
    assert not found.grave
    assert found.said == "its column words takes an empty text as a value, and the declaration says that it is none"
