"""JSON may write the name of a field with escapes, as Python does with every letter that is not ASCII. The field is the
same one."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.whole_imports import imported

pytestmark = pytest.mark.usefixtures("home")

NAMES = ["größe", 'q"q', "back\\slash", "tab\there", "🍕"]
RECORDS: list[dict[str, Any]] = [
    {"id": number, "j": value} for number, value in enumerate(["x", "5", "null", "[1]", 6])
]


@pytest.mark.parametrize("format_", ["ndjson", "json"])
@pytest.mark.parametrize("name", NAMES)
def test_json_under_an_escaped_name_stays_what_it_is(
    shop: Shop, engine: Engine, tmp_path: Path, name: str, format_: str
) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    shop.do(f"CREATE TABLE shop.odd (id integer PRIMARY KEY, {quoted} jsonb)")
    lines = [json.dumps({"id": each["id"], name: each["j"]}) for each in RECORDS]
    lines.append(json.dumps({"id": 9, name: "as it is"}, ensure_ascii=False))
    path = tmp_path / f"odd.{format_}"
    path.write_text("\n".join(lines) if format_ == "ndjson" else "[" + ",\n".join(lines) + "]")
    job = imported(engine, "shop.odd", path, declaration=shop.declared("shop.odd"))
    assert (job.status, job.last_error) == ("COMPLETED", None)
    wanted = [(each["id"], each["j"]) for each in RECORDS]
    assert shop.query(f"SELECT id, {quoted} FROM shop.odd ORDER BY id") == [*wanted, (9, "as it is")]


@pytest.mark.parametrize("name", NAMES)
def test_a_number_under_an_escaped_name_is_no_text(shop: Shop, engine: Engine, tmp_path: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    shop.do(f"CREATE TABLE shop.odd (id integer PRIMARY KEY, {quoted} text)")
    path = tmp_path / "odd.ndjson"
    path.write_text("".join(json.dumps({"id": id_, name: value}) + "\n" for id_, value in enumerate(["a", 5, "5"])))
    job = imported(engine, "shop.odd", path, declaration=shop.declared("shop.odd"))
    assert Imports(engine, tmp_path).codes(job) == {2: ["invalid_text"]}
    assert shop.query("SELECT * FROM shop.odd ORDER BY id") == [(0, "a"), (2, "5")]
