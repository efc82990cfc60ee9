"""A table that somebody changes while an import is under way: the import goes on, or says in one line what to do. It
never loads half of a file in silence, nor changes a value."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports import winding_up, work
from bulk_pipelines.imports.kind import known_kinds
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.resources import adoption
from bulk_pipelines.settings import current
from bulk_pipelines.settings.engine import EngineSettings
from bulk_pipelines_tests.scenes.import_jobs import HASTY, Imports, counts
from bulk_pipelines_tests.scenes.listening import before
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.shop_imports import planned

pytestmark = pytest.mark.usefixtures("home")

TABLE = """
CREATE TABLE shop.goods (id integer PRIMARY KEY, price numeric(8, 2), at timestamp, name varchar(20), more text);
INSERT INTO shop.goods VALUES (3, 1, NULL, 'old', 'kept')
"""
RECORDS = 12
TEXT = "id,price,at,name\n" + "".join(f"{n},{n}.25,2026-01-10 12:00:00.75,name {n}\n" for n in range(1, RECORDS + 1))


@pytest.fixture
def imports(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imports:
    monkeypatch.setattr(planning, "RANGE_BYTES", 100)
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


def worked(shop: Shop, imports: Imports, change: str, mode: str) -> Job:
    """Import the records into the goods, which are changed meanwhile."""
    shop.do(TABLE)
    job = planned(shop, imports, "shop.goods", TEXT, mode=mode)
    return Imports(imports.engine, imports.folder, changing(shop, change)).worked(job)


HARMLESS = {
    "a column comes": "ALTER TABLE shop.goods ADD extra integer",
    "one with a default comes": "ALTER TABLE shop.goods ADD extra integer NOT NULL DEFAULT 7",
    "a column that the file lacks goes": "ALTER TABLE shop.goods DROP more",
    "a constraint holds for new rows": "ALTER TABLE shop.goods ADD CONSTRAINT few CHECK (price < 12) NOT VALID",
    "a trigger comes": """
        CREATE FUNCTION shop.none() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN IF NEW.price >= 12 THEN RETURN NULL; END IF; RETURN NEW; END $$;
        CREATE TRIGGER none BEFORE INSERT OR UPDATE ON shop.goods FOR EACH ROW EXECUTE FUNCTION shop.none()""",
    "an index comes": "CREATE UNIQUE INDEX ON shop.goods (name) WHERE id < 100",
}


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize("change", HARMLESS)
def test_a_harmless_change_ends_nothing(shop: Shop, imports: Imports, mode: str, change: str) -> None:
    job = worked(shop, imports, HARMLESS[change], mode)
    codes = imports.codes(job)
    refused = {13: ["refused_by_table"]} if "CHECK" in HARMLESS[change] or "TRIGGER" in HARMLESS[change] else {}
    assert codes == refused | ({4: ["duplicate_key"]} if mode == "insert" else {}), job.last_error
    found = dict(shop.query("SELECT id, price::text FROM shop.goods"))
    held = {3: "1.00"} if mode == "insert" else {}
    assert found == {n: f"{n}.25" for n in range(1, RECORDS + 1) if n + 1 not in refused} | held


FRESH = "CREATE TABLE shop.fresh (LIKE shop.goods INCLUDING ALL)"
ANOTHER = "another table has the name shop.goods since this import began"
GRAVE = {
    "fewer digits": ("ALTER TABLE shop.goods ALTER price TYPE numeric(8, 1)", "is declared as numeric(8,2)"),
    "fewer digits of a second": ("ALTER TABLE shop.goods ALTER at TYPE timestamp(0)", "is declared as timestamp "),
    "times with a zone": ("ALTER TABLE shop.goods ALTER at TYPE timestamptz", "is declared as timestamp "),
    "another type": ("ALTER TABLE shop.goods ALTER id TYPE bigint", "is bigint, but is declared as integer"),
    "a shorter text": ("ALTER TABLE shop.goods ALTER name TYPE varchar(7)", "is declared as character varying(20)"),
    "another table under the name": (
        f"{FRESH}; ALTER TABLE shop.goods RENAME TO former; ALTER TABLE shop.fresh RENAME TO goods",
        ANOTHER,
    ),
    "a table made anew": (f"{FRESH}; DROP TABLE shop.goods; ALTER TABLE shop.fresh RENAME TO goods", ANOTHER),
}


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_partition_that_goes_takes_its_own_records_alone(shop: Shop, imports: Imports, mode: str) -> None:
    shop.do(
        f"""{TABLE}; CREATE TABLE shop.split (LIKE shop.goods INCLUDING ALL) PARTITION BY RANGE (id);
        CREATE TABLE shop.low PARTITION OF shop.split FOR VALUES FROM (1) TO (7);
        CREATE TABLE shop.high PARTITION OF shop.split FOR VALUES FROM (7) TO (100)"""
    )
    kinds = changing(shop, "ALTER TABLE shop.split DETACH PARTITION shop.high")
    job = Imports(imports.engine, imports.folder, kinds).worked(planned(shop, imports, "shop.split", TEXT, mode=mode))
    assert imports.codes(job) == {line: ["refused_by_table"] for line in range(8, RECORDS + 2)}
    assert [id_ for (id_,) in shop.query("SELECT id FROM shop.split ORDER BY id")] == list(range(1, 7))


def test_a_declaration_that_is_edited_meanwhile_counts_for_the_next_import(
    shop: Shop, imports: Imports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_RESOURCES", str(tmp_path / "resources"))
    shop.do(TABLE)
    with pool.transaction(shop.engine) as connection:
        _, path = adoption.adopt(connection, current(), "shop.goods", None, provenance=False, again=False)
    imports = Imports(imports.engine, imports.folder, known_kinds())
    job = imports.planned(TEXT, resource="goods")
    path.write_text(path.read_text().replace('name = "name"', 'name = "name"\npattern = "never"'))
    assert imports.codes(imports.worked(job)) == {4: ["duplicate_key"]}
    again = imports.worked(imports.planned(TEXT, resource="goods", mode="upsert"))
    assert set(map(tuple, imports.codes(again).values())) == {("invalid_value",)}


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize("change", GRAVE)
def test_a_grave_change_says_what_to_do(shop: Shop, imports: Imports, mode: str, change: str) -> None:
    statements, said = GRAVE[change]
    job = worked(shop, imports, statements, mode)
    assert job.status in {"COMPLETED_WITH_ERRORS", "FAILED"}
    assert said in (job.last_error or ""), job.last_error
    table = "shop.former" if "former" in statements else "shop.goods"
    found = shop.query(f"SELECT id FROM {table} ORDER BY id")
    if mode == "upsert":
        assert found == ([] if "DROP" in statements else [(3,)])
    assert not [id_ for (id_,) in shop.query("SELECT id FROM shop.goods") if id_ > 6]


@pytest.mark.parametrize("change", ["ALTER TABLE shop.guests ALTER seat TYPE varchar(40)", "DROP TABLE shop.guests"])
def test_an_import_whose_table_changed_before_its_end_is_wound_up(
    shop: Shop, imports: Imports, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Line 3 is loaded although line 2 owns its id, and cannot be taken back when the table is not what it was."""
    monkeypatch.setattr(planning, "RANGE_BYTES", 4)
    shop.do(
        """CREATE TABLE shop.guests (id integer PRIMARY KEY, seat varchar(20), EXCLUDE (seat WITH =));
        INSERT INTO shop.guests VALUES (8, 'a')"""
    )
    job = planned(shop, imports, "shop.guests", "id,seat\n2,a\n2,b\n4,b\n")
    ended = imports.worked(job, before("CREATE TEMP TABLE late", lambda: shop.do(change)))
    assert (ended.status, ended.result) == (JobState.FAILED, None)
    winding_up.wind_up_all(imports.engine)
    assert counts(imports.look(job)) == {"read": 3, "loaded": 1, "rejected": 2}
    assert not winding_up.is_anything_due(imports.engine)
    assert not shop.left_over()
