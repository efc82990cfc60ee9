"""A table gets columns that say where its rows come from, whatever it has already."""

from pathlib import Path

import pytest

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources import adoption
from bulk_pipelines_tests.scenes.shop import Shop

OTHER = """
CREATE FUNCTION shop.shout() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.name := upper(NEW.name); RETURN NEW; END $$;
"""


@pytest.fixture
def declared(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("BULK_RESOURCES", str(tmp_path / "resources"))
    shop.do(f"{OTHER}; CREATE TABLE shop.goods (id integer PRIMARY KEY, name text)")
    return shop


def adopt(shop: Shop, table: str = "shop.goods") -> None:
    with transaction(shop.engine) as connection:
        adoption.adopt(connection, settings.current(), table, None, provenance=True, again=False)


def triggers(shop: Shop) -> list[str]:
    found = shop.query("SELECT tgname FROM pg_trigger WHERE tgrelid = 'shop.goods'::regclass ORDER BY 1")
    return [name for (name,) in found]


def revised(shop: Shop) -> list[tuple[object, ...]]:
    """Change one of two rows that an import has written, and return what they say."""
    shop.do("INSERT INTO shop.goods (id, name, import_job, import_line) VALUES (1, 'a', 1, 2), (2, 'b', 1, 3)")
    shop.do("UPDATE shop.goods SET name = 'c' WHERE id = 1; UPDATE shop.goods SET import_job = 2 WHERE id = 2")
    return shop.query("SELECT id, name, import_revised FROM shop.goods ORDER BY id")


@pytest.mark.parametrize("names", [["revised"], ["import_revised"], ["revised", "import_revised", "import_revised_2"]])
def test_triggers_of_any_name_are_left_alone(declared: Shop, names: list[str]) -> None:
    for name in names:
        declared.do(f"CREATE TRIGGER {name} BEFORE UPDATE ON shop.goods FOR EACH ROW EXECUTE FUNCTION shop.shout()")
    adopt(declared)
    assert set(names) < set(triggers(declared))
    assert revised(declared) == [(1, "C", True), (2, "B", False)]


def test_a_table_that_is_traced_already_has_one_trigger(declared: Shop) -> None:
    declared.do(
        """ALTER TABLE shop.goods ADD import_job bigint, ADD import_line bigint,
            ADD import_revised boolean NOT NULL DEFAULT false;
        CREATE TRIGGER revised BEFORE UPDATE ON shop.goods FOR EACH ROW
            WHEN (OLD.import_job IS NOT NULL AND NOT OLD.import_revised
                AND NEW.import_job IS NOT DISTINCT FROM OLD.import_job
                AND NEW.import_line IS NOT DISTINCT FROM OLD.import_line)
            EXECUTE FUNCTION bulk.mark_revised()"""
    )
    adopt(declared)
    assert triggers(declared) == ["revised"]
    assert revised(declared) == [(1, "c", True), (2, "b", False)]


def test_a_partition_that_has_such_a_trigger(declared: Shop) -> None:
    """A trigger of a partitioned table is made on each partition, too."""
    declared.do(
        """CREATE TRIGGER import_revised BEFORE UPDATE ON shop.events_2025
            FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"""
    )
    adopt(declared, "shop.events")
    found = declared.query("SELECT count(*) FROM pg_trigger WHERE tgfoid = 'bulk.mark_revised'::regproc")
    assert found == [(6,)], "three samples, the table and its two partitions"


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("shop.events_2025", ""),
        ("shop.typed", "CREATE TYPE shop.pair AS (a integer, b integer); CREATE TABLE shop.typed OF shop.pair"),
        ("shop.wide", f"CREATE TABLE shop.wide ({', '.join(f'c{n} smallint' for n in range(1_598))})"),
    ],
)
def test_a_table_that_cannot_have_the_columns(declared: Shop, tmp_path: Path, table: str, statement: str) -> None:
    declared.do(statement or "SELECT")
    with pytest.raises(InvalidInput, match=f"provenance: {table} cannot have the columns that say .*: (cannot|tables)"):
        adopt(declared, table)
    assert not (tmp_path / "resources").exists()
