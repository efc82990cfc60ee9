"""Rows that refer to rows of their own table, in tables that somebody else has made."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.imports.plan import planning
from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.shop_imports import loaded

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def imports(engine: Engine, tmp_path: Path) -> Imports:
    return Imports(engine, tmp_path)


@pytest.mark.parametrize("provenance", [False, True], ids=["without provenance", "with provenance"])
@pytest.mark.parametrize("mode", ["insert", "upsert", "validate"])
def test_rows_that_refer_to_rows_of_their_own_table(
    shop: Shop, imports: Imports, monkeypatch: pytest.MonkeyPatch, mode: str, provenance: bool
) -> None:
    """The rows may stand in any order, within a batch and across batches; a row is rejected if the row that it names
    is."""
    shop.do("CREATE TABLE shop.tree (id integer PRIMARY KEY, up integer REFERENCES shop.tree, said text NOT NULL)")
    if provenance:
        shop.do("SELECT bulk.trace_imports('shop.tree')")
    monkeypatch.setattr(planning, "RANGE_BYTES", 40)
    chain = [f"{n},{n + 1},x\n" for n in range(1, 30)]
    text = "id,up,said\n" + "".join(chain) + "30,,x\n40,99,x\n41,40,x\n50,50,x\n51,52,x\n52,51,x\n60,61,x\n61,1,\n"
    options: dict[str, Any] = {"validate_only": True} if mode == "validate" else {"mode": mode}
    job = loaded(shop, imports, "shop.tree", text, **options)
    assert imports.codes(job) == {
        32: ["invalid_reference"],
        33: ["invalid_reference"],
        37: ["invalid_reference"],
        38: ["missing_field"],
    }
    wanted = [] if mode == "validate" else [(n,) for n in [*range(1, 31), 50, 51, 52]]
    assert shop.query("SELECT id FROM shop.tree ORDER BY id") == wanted


@pytest.mark.parametrize("mode", ["insert", "upsert", "validate"])
def test_rows_in_a_circle_load_though_others_are_refused(shop: Shop, imports: Imports, mode: str) -> None:
    """The circle has more rows than are tried together when the table refuses some: so it can only go in whole."""
    shop.do(
        "CREATE TABLE shop.ring (id integer PRIMARY KEY, next integer REFERENCES shop.ring);"
        " CREATE FUNCTION shop.refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF NEW.id = 7 THEN RAISE 'no seven'; END IF; RETURN NEW; END $$;"
        " CREATE TRIGGER refuse BEFORE INSERT ON shop.ring FOR EACH ROW EXECUTE FUNCTION shop.refuse()"
    )
    ring = "".join(f"{n},{10 if n == 59 else n + 1}\n" for n in range(10, 60))
    options: dict[str, Any] = {"validate_only": True} if mode == "validate" else {"mode": mode}
    job = loaded(shop, imports, "shop.ring", f"id,next\n7,8\n8,8\n9,7\n{ring}", **options)
    assert imports.codes(job) == {2: ["refused_by_table"], 4: ["invalid_reference"]}
    assert job.result is not None
    assert job.result["loaded"] + job.result["valid"] == 51
