"""Texts that a collation takes for the same are one key, and tables may refer to each other across collations."""

from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.imports.afterwards import undo
from bulk_pipelines.imports.afterwards.undo import Undoable
from bulk_pipelines_tests.scenes import shop as shops
from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.shop_imports import loaded

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def shop(engine: Engine) -> Shop:
    return shops.opened(engine)


@pytest.fixture
def without_case(shop: Shop) -> Shop:
    """Provide a collation that takes `a` and `A` for the same; a server without ICU has none."""
    try:
        shop.do(
            "CREATE COLLATION shop.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
            "CREATE DOMAIN shop.named AS text COLLATE shop.ci"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server is built without ICU")
    return shop


@pytest.fixture
def imports(engine: Engine, tmp_path: Path) -> Imports:
    return Imports(engine, tmp_path)


@pytest.mark.parametrize("provenance", [False, True], ids=["without provenance", "with provenance"])
@pytest.mark.parametrize("kind", ["text COLLATE shop.ci", "varchar(9) COLLATE shop.ci", "shop.named"])
def test_a_key_without_case(without_case: Shop, imports: Imports, kind: str, provenance: bool) -> None:
    shop = without_case
    shop.do(
        f"CREATE TABLE shop.codes (code {kind} PRIMARY KEY, n integer); INSERT INTO shop.codes VALUES ('Old', 0);"
        f"CREATE TABLE shop.uses (code {kind} REFERENCES shop.codes)"
    )
    if provenance:
        shop.do("SELECT bulk.trace_imports('shop.codes')")
    job = loaded(shop, imports, "shop.codes", "code,n\na,1\nA,2\nold,3\nb,4\n")
    assert imports.codes(job) == {3: ["duplicate_key"], 4: ["duplicate_key"]}
    job = loaded(shop, imports, "shop.codes", "code,n\nB,5\nc,6\nb,7\nOLD,8\n", mode="upsert")
    assert imports.codes(job) == {}
    assert shop.query("SELECT code::text, n FROM shop.codes ORDER BY n") == [("a", 1), ("c", 6), ("b", 7), ("Old", 8)]
    job = loaded(shop, imports, "shop.uses", "code\nA\nB\nx\n")
    assert imports.codes(job) == {4: ["invalid_reference"]}


@pytest.mark.parametrize(("column", "index"), [("shop.ci", '"C"'), ('"C"', "shop.ci")])
def test_an_index_that_compares_in_its_own_way_is_left_to_the_table(
    without_case: Shop, imports: Imports, column: str, index: str
) -> None:
    shop = without_case
    shop.do(
        f"CREATE TABLE shop.codes (code text COLLATE {column}, n integer);"
        f"CREATE UNIQUE INDEX ON shop.codes (code COLLATE {index})"
    )
    assert shop.declared("shop.codes").keys == ()
    job = loaded(shop, imports, "shop.codes", "code,n\na,1\nA,2\na,3\n")
    wanted = {4: ["refused_by_table"]} | ({3: ["refused_by_table"]} if index == "shop.ci" else {})
    assert imports.codes(job) == wanted


@pytest.mark.parametrize("how", ["NO ACTION", "CASCADE"])
def test_a_reference_across_collations(shop: Shop, imports: Imports, how: str) -> None:
    """PostgreSQL itself compares the texts of such a reference; a query with both columns fails."""
    shop.do(
        "CREATE TABLE shop.codes (code text COLLATE \"C\" PRIMARY KEY); SELECT bulk.trace_imports('shop.codes');"
        f'CREATE TABLE shop.uses (id integer, code text COLLATE "POSIX" REFERENCES shop.codes ON DELETE {how})'
    )
    first = loaded(shop, imports, "shop.codes", "code\na\nb\n")
    job = loaded(shop, imports, "shop.uses", "id,code\n1,a\n2,x\n3,\n")
    assert imports.codes(job) == {3: ["refused_by_table"]}
    assert shop.query("SELECT id FROM shop.uses ORDER BY id") == [(1,), (3,)]
    declared = shop.declared("shop.codes")
    with pool.transaction(shop.engine) as connection:
        assert undo.count(connection, declared, first.job_id) == Undoable(free=1, changed=0, referred_to=1)
    assert sum(undo.take_back(lambda: pool.transaction(shop.engine), declared, first.job_id)) == 1
    assert shop.query("SELECT code FROM shop.codes") == [("a",)]
