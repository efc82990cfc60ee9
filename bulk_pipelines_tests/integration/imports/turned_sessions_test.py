"""What is loaded into tables of other people, and what is exported of them, depends on no setting of a role or a
database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.exports import filters, streaming
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines_tests.scenes import shop as shops
from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.sessions import TURNED, turn
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.shop_imports import loaded

pytestmark = pytest.mark.usefixtures("home")

LANGUAGE = {"plpgsql.variable_conflict": "use_variable", "plpgsql.extra_errors": "all", "plpgsql.extra_warnings": "all"}
"""Settings of the language in which people write triggers, and we some functions."""


@pytest.fixture
def turned(database_url: str) -> Iterator[Engine]:
    with pool.single(database_url) as connection:
        turn(connection, "DATABASE", connection.info.dbname, TURNED | LANGUAGE)
    engine = pool.connect(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def shop(turned: Engine) -> Shop:
    return shops.opened(turned)


@pytest.fixture
def imports(turned: Engine, tmp_path: Path) -> Imports:
    return Imports(turned, tmp_path)


def test_a_zone_means_what_it_means_everywhere(shop: Shop, imports: Imports) -> None:
    shop.do("CREATE TABLE shop.calls (id integer PRIMARY KEY, at timestamptz)")
    loaded(shop, imports, "shop.calls", "id,at\n1,2026-01-10 10:00 EST\n")
    assert shop.query("SELECT at::text FROM shop.calls") == [("2026-01-10 15:00:00+00",)]


def test_a_filter_finds_every_row(shop: Shop) -> None:
    shop.do(
        """CREATE TABLE shop.things AS
            SELECT n AS id, '{"kind": "x"}'::jsonb AS details FROM generate_series(1, 20000) AS n;
        CREATE INDEX ON shop.things USING gin (details); ANALYZE shop.things;
        ALTER TABLE shop.things ADD PRIMARY KEY (id)"""
    )
    declared = shop.declared("shop.things")
    request = ExportRequest(
        declared.name, Format.CSV, ("id",), declaration=declared, filters=(filters.parse('details~={"kind": "x"}'),)
    )
    with pool.transaction(shop.engine) as connection:
        turn(connection, "DATABASE", connection.info.dbname, {"enable_seqscan": "off"})
    shop.engine.dispose()
    found = b"".join(streaming.stream(shop.engine, request)).splitlines()[1:]
    assert len(set(found)) == len(found) == 20_000


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_every_way_of_loading_works(shop: Shop, imports: Imports, mode: str, traced: bool) -> None:
    shop.do(
        """CREATE TABLE shop.parts (id integer PRIMARY KEY, n numeric(4, 1) CHECK (n <> 5), path box,
            up integer REFERENCES shop.parts, EXCLUDE (n WITH =));
        INSERT INTO shop.parts VALUES (1, 1, NULL, NULL)"""
    )
    if traced:
        shop.do("SELECT bulk.trace_imports('shop.parts')")
    text = 'id,n,path,up\n2,2.5,"(1,1),(0,0)",4\n3,2.55,,\n4,5,,\n5,6,x,\n6,7,,2\n7,1,,\n8,8,,1\n'
    job = loaded(shop, imports, "shop.parts", text, mode=mode)
    refused, fault = ["refused_by_table"], ["invalid_value"]
    reference = ["invalid_reference"]
    assert imports.codes(job) == {2: reference, 3: ["does_not_fit"], 4: refused, 5: fault, 6: reference, 7: refused}
    assert shop.query("SELECT id, n::text FROM shop.parts ORDER BY id") == [(1, "1.0"), (8, "8.0")]
    if traced:
        shop.do("UPDATE shop.parts SET n = 9 WHERE id = 8")
        found = shop.query("SELECT import_job, import_line, import_revised FROM shop.parts WHERE id = 8")
        assert found == [(job.job_id, 8, True)]
