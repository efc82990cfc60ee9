"""Tables that change after they were declared: an import says what to do, whenever it meets the change."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports import work
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.resources import adoption
from bulk_pipelines.settings.engine import EngineSettings
from bulk_pipelines_tests.scenes.import_jobs import HASTY, Imports
from bulk_pipelines_tests.scenes.shop import Shop

pytestmark = pytest.mark.usefixtures("home")

CHANGES = {
    "DROP TABLE shop.lines, shop.orders": "Was shop.orders renamed or removed",
    "ALTER TABLE shop.orders RENAME TO sold": "Was shop.orders renamed or removed",
    "ALTER TABLE shop.orders DROP COLUMN weight": "the table has no column weight",
    "ALTER TABLE shop.orders ALTER items TYPE text": "its column items is text, but is declared as smallint",
    "ALTER TABLE shop.orders ADD kind text NOT NULL": "the table has a column kind (text), which needs a value",
    "ALTER TABLE shop.orders DROP CONSTRAINT orders_pkey CASCADE": "the table has no unique key on id",
}


@pytest.fixture
def imports(engine: Engine, tmp_path: Path) -> Imports:
    return Imports(engine, tmp_path)


def changing(shop: Shop, change: str) -> Kinds:
    """Return kinds of imports that change the table before the third batch."""
    batches: list[work.Read] = []

    def loading(read: work.Read) -> None:
        batches.append(read)
        if len(batches) == 3:
            shop.do(change)

    handle = work.Loader(limits_of(EngineSettings()).load, loading).handle
    return Kinds(replace(kind, handle=handle) for kind in HASTY.values())


@pytest.mark.parametrize(
    ("when", "change"),
    [("before the plan", change) for change in CHANGES]
    + [(when, change) for when in ("before the first batch", "between two batches") for change in list(CHANGES)[:3]],
)
def test_a_table_that_changes_says_what_to_do(
    shop: Shop, imports: Imports, monkeypatch: pytest.MonkeyPatch, change: str, when: str
) -> None:
    declared = shop.declared("shop.orders")
    monkeypatch.setattr(planning, "RANGE_BYTES", 40)
    records = "".join(f"{n},1,1.50,2026-01-10,1.5,2\n" for n in range(1, 9))
    text = "id,customer_id,total,ordered,weight,items\n" + records
    if when == "before the plan":
        shop.do(change)
        with pytest.raises(InvalidInput) as caught:
            imports.planned(text, resource=declared.name, declaration=declared)
        said = str(caught.value)
    else:
        job = imports.planned(text, resource=declared.name, declaration=declared)
        if when == "between two batches":
            imports = Imports(imports.engine, imports.folder, changing(shop, change))
        else:
            shop.do(change)
        job = imports.worked(job)
        assert job.status in {"FAILED", "COMPLETED_WITH_ERRORS"}
        letters = imports.query(
            f"SELECT error_message FROM job_item WHERE job_id = {job.job_id} AND error_message <> ''"
        )
        assert letters, "the ranges that could not be loaded are dead letters"
        said = letters[0][0]
    assert CHANGES[change] in said
    assert "bulk resources check" in said or "renamed or removed" in said


def test_adopting_again_after_a_change(shop: Shop, imports: Imports) -> None:
    declared = shop.declared("shop.customers")
    shop.do("ALTER TABLE shop.customers RENAME name TO title")
    with pytest.raises(InvalidInput, match="has no column name"):
        imports.planned("id,email,name\n100,x@example.org,X\n", resource=declared.name, declaration=declared)
    with pool.transaction(shop.engine) as connection:
        fresh = adoption.today(connection, declared)
    job = imports.planned("id,email,title\n100,x@example.org,X\n", resource=fresh.name, declaration=fresh)
    assert imports.worked(job).status == "COMPLETED"
