"""Tables as they are found in databases of other people: each is loaded and exported, or refused in one line."""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.database.session import own_schema
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import streaming
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.plan import agreement
from bulk_pipelines.resources import adoption, reflection
from bulk_pipelines_tests.scenes.import_jobs import Imports
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.shop_imports import loaded, planned

pytestmark = pytest.mark.usefixtures("home")

HOSTILE = [
    "fields",
    "length 0",
    "value 0",
    "next length",
    "a",
    "a length",
    "select",
    "A.b",
    'say "x"',
    "🍕",
    "🍺",
    "number of the row",
    "{}",
    "chunk",
    "wanted",
    "record",
    "record_",
    "O'Neil\\",
]


@pytest.fixture
def imports(engine: Engine, tmp_path: Path) -> Imports:
    return Imports(engine, tmp_path)


def exported(shop: Shop, table: str, format_: Format = Format.CSV) -> bytes:
    declared = shop.declared(table)
    return b"".join(streaming.stream(shop.engine, ExportRequest(declared.name, format_, declaration=declared)))


def csv_of(*rows: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def test_three_hundred_columns(shop: Shop, imports: Imports) -> None:
    types = ["integer", "text", "numeric(8,2)", "timestamptz", "boolean"]
    names = [f"c{number}" for number in range(300)]
    columns = ", ".join(f"{name} {types[place % 5]}" for place, name in enumerate(names))
    shop.do(f"CREATE TABLE shop.wide ({columns}, PRIMARY KEY (c0, c5, c10))")
    values = ["7", "text, as it is", "1.50", "2026-01-10T00:00:00Z", "true"] * 60
    header, first, second = names, values, ["8", *values[1:]]
    job = loaded(shop, imports, "shop.wide", csv_of(header, first, second, first))
    assert imports.codes(job) == {4: ["duplicate_key"]}
    (_, *found) = csv.reader(io.StringIO(exported(shop, "shop.wide").decode()))
    assert [row[:3] for row in sorted(found)] == [["7", "text, as it is", "1.50"], ["8", "text, as it is", "1.50"]]
    assert all(row[295:] == ["7", "text, as it is", "1.50", "2026-01-10 00:00:00+00", "true"] for row in found)


WIDEST = 1_595


@pytest.fixture
def wide(shop: Shop) -> list[str]:
    """The names of as many columns as a table can have."""
    names = ["id", "email", *(f"c{number}" for number in range(1_598))]
    shop.do(f"CREATE TABLE shop.wide (id integer PRIMARY KEY, email text UNIQUE, {' int2, '.join(names[2:])} int2)")
    return names


@pytest.mark.parametrize("options", [{}, {"mode": "upsert"}, {"validate_only": True}], ids=str)
def test_as_many_columns_as_an_import_can_give(
    shop: Shop, imports: Imports, wide: list[str], options: dict[str, Any]
) -> None:
    """Some records wait for the others, and some are refused, also by the table."""
    shop.do("ALTER TABLE shop.wide ADD CHECK (c0 <> 8)")
    rows = [[str(number), email, *["7"] * (WIDEST - 2)] for number, email in enumerate(["a", "b", "c", "a", "d"])]
    rows[1][5], rows[2][2] = "70000", "8"
    job = loaded(shop, imports, "shop.wide", csv_of(wide[:WIDEST], *rows), **options)
    last_wins = "mode" in options
    wanted = {2 if last_wins else 5: ["duplicate_key"], 3: ["invalid_number"], 4: ["refused_by_table"]}
    assert imports.codes(job) == wanted, job.last_error
    ids = [] if "validate_only" in options else [3, 4] if last_wins else [0, 4]
    assert shop.query("SELECT id, c1592 FROM shop.wide ORDER BY id") == [(id_, 7) for id_ in ids]


def test_more_columns_are_refused_by_the_plan(shop: Shop, imports: Imports, wide: list[str]) -> None:
    said = r"source: it gives 1,596 columns of .*wide.*, and an import can give 1,595: .* PostgreSQL allows 1,600"
    with pytest.raises(InvalidInput, match=said):
        planned(shop, imports, "shop.wide", csv_of(wide[: WIDEST + 1], ["1"] * (WIDEST + 1)))


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize("provenance", [False, True])
def test_names_of_every_kind(shop: Shop, imports: Imports, mode: str, provenance: bool) -> None:
    quoted = [name.replace('"', '""') for name in HOSTILE]
    columns = ", ".join(f'"{name}" integer' for name in quoted)
    place = '"Odd. Schema"."Tab.le 🍕 ""x"""'
    shop.do(f'CREATE SCHEMA "Odd. Schema"; CREATE TABLE {place} (id integer PRIMARY KEY, {columns}, "Note" text)')
    if provenance:
        shop.do(f"SELECT bulk.trace_imports('{place}')")
    header = ["id", *HOSTILE, "Note"]
    rows = [[str(n), *(str(n * 10 + k) for k in range(len(HOSTILE))), "x"] for n in (1, 2)]
    bad = [["3", *["y"] * len(HOSTILE), "z"], rows[0]]
    job = loaded(shop, imports, place, csv_of(header, *rows, *bad), mode=mode)
    assert imports.codes(job)[4] == ["invalid_number"] * len(HOSTILE)
    for format_ in (Format.CSV, Format.NDJSON):
        shown = exported(shop, place, format_).decode()
        assert all(name in shown.replace('""', '"').replace('\\"', '"').replace("\\\\", "\\") for name in HOSTILE)
    (head, *found) = csv.reader(io.StringIO(exported(shop, place).decode()))
    assert (head, sorted(found)) == (header, rows)


def test_an_empty_table_and_one_without_columns(shop: Shop, imports: Imports) -> None:
    assert exported(shop, "shop.orders", Format.JSON) == b"[]\n"
    shop.do("CREATE TABLE shop.nothing (); CREATE TABLE shop.made (id integer GENERATED ALWAYS AS IDENTITY)")
    for table in ("shop.nothing", "shop.made"):
        with pytest.raises(InvalidInput, match="has no column that a file could give values for"):
            shop.declared(table)


@pytest.mark.parametrize("name", ["import_job", "import_held"])
def test_a_column_with_a_name_of_ours_is_refused(shop: Shop, name: str) -> None:
    shop.do(f"CREATE TABLE shop.same (id integer, {name} text)")
    with pytest.raises(InvalidInput, match=f"has a column {name}, and imports use this name"):
        shop.declared("shop.same")


def test_a_name_with_a_per_cent_sign_is_refused_by_imports_alone(shop: Shop, imports: Imports) -> None:
    shop.do(
        'CREATE TABLE shop.rebates (id integer PRIMARY KEY, "50% off" integer); INSERT INTO shop.rebates VALUES (1, 2)'
    )
    with pytest.raises(InvalidInput, match=r"'50% off' has a per cent sign in its name"):
        planned(shop, imports, "shop.rebates", "id,50% off\n1,2\n")
    assert exported(shop, "shop.rebates") == b"id,50% off\n1,2\n"


def test_generated_and_identity_columns(shop: Shop, imports: Imports) -> None:
    shop.do(
        "CREATE TABLE shop.bills (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, net numeric NOT NULL,"
        " gross numeric GENERATED ALWAYS AS (net * 1.19) STORED, number integer GENERATED BY DEFAULT AS IDENTITY)"
    )
    loaded(shop, imports, "shop.bills", "net\n1\n2\n", "net\n3\n")
    assert shop.query("SELECT id, gross::float, number FROM shop.bills ORDER BY net") == [
        (1, pytest.approx(1.19), 1),
        (2, pytest.approx(2.38), 2),
        (3, pytest.approx(3.57), 3),
    ]
    loaded(shop, imports, "shop.bills", "net,number\n4,40\n")
    for name in ("id", "gross"):
        with pytest.raises(InvalidInput, match=f'unknown: "{name}" .*--ignore-extra leaves them out'):
            planned(shop, imports, "shop.bills", f"{name},net\n1,1\n")


def test_a_table_that_others_inherit_is_judged_by_its_own_rows(shop: Shop, imports: Imports) -> None:
    """A key of it says nothing of theirs, so what a record comes to must not depend on the records beside it."""
    shop.do(
        "CREATE TABLE shop.places (id integer PRIMARY KEY, name text);"
        "CREATE TABLE shop.towns () INHERITS (shop.places);"
        "INSERT INTO shop.places VALUES (2, 'old'); INSERT INTO shop.towns VALUES (1, 'town'), (3, 'town')"
    )
    assert shop.declared("shop.places").keys == ()
    job = loaded(shop, imports, "shop.places", "id,name\n1,new\n", "id,name\n2,new\n3,new\n")
    assert list(imports.codes(job).values()) == [["refused_by_table"]]
    assert shop.query("SELECT id, name FROM ONLY shop.places ORDER BY id") == [(1, "new"), (2, "old"), (3, "new")]
    with pytest.raises(InvalidInput, match="has no key that an upsert could match on"):
        planned(shop, imports, "shop.places", "id,name\n1,new\n", mode="upsert")


NO_TABLES = {
    "shop.plain_view": "is a view",
    "shop.kept": "is a materialized view",
    "shop.orders_pkey": "is an index",
    "shop.counter": "is a sequence",
    "shop.missing": 'relation "shop.missing" does not exist',
    # PostgreSQL 15 names the schema, and 18 the table.
    "nowhere.orders": "does not exist. A name is written as in SQL",
    "shop.orders; DROP TABLE job": "syntax",
    "a.b.c.d": "too many dotted names",
    '"1259"': 'relation "1259" does not exist',
    "": "'' is no name. A name is written as in SQL",
    "0": "'0' is no name",
    " 1259 ": "' 1259 ' is no name",
    "-": "'-' is no name",
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_table_is_refused_in_one_line(shop: Shop, name: str) -> None:
    shop.do(
        "CREATE VIEW shop.plain_view AS SELECT * FROM shop.customers;"
        "CREATE MATERIALIZED VIEW shop.kept AS SELECT 1 AS x; CREATE SEQUENCE shop.counter"
    )
    with pytest.raises(InvalidInput) as caught:
        shop.declared(name)
    assert NO_TABLES[name] in str(caught.value)
    assert "\n" not in str(caught.value)


@contextmanager
def as_role(shop: Shop, *grants: str) -> Iterator[Connection]:
    """Provide the connection of a role that has these rights, and that is gone afterwards."""
    with pool.transaction(shop.engine) as connection, connection.transaction(force_rollback=True):
        connection.execute("CREATE ROLE guest")
        for grant in grants:
            connection.execute(f"GRANT {grant} TO guest".encode())
        connection.execute("SET LOCAL ROLE guest")
        yield connection


def test_row_level_security_and_roles_without_rights(shop: Shop) -> None:
    shop.do("ALTER TABLE shop.customers ENABLE ROW LEVEL SECURITY; CREATE TABLE shop.closed (id integer)")
    with as_role(shop, "USAGE ON SCHEMA shop", "SELECT, INSERT ON shop.customers") as connection:
        with pytest.raises(InvalidInput, match=r"row-level security of shop\.customers holds .* BYPASSRLS"):
            reflection.reflect(connection, "shop.customers")
        with pytest.raises(
            InvalidInput, match=r"may not read shop\.closed: GRANT SELECT ON shop\.closed TO it, and INSERT"
        ):
            reflection.reflect(connection, "shop.closed")
    grants = ("USAGE ON SCHEMA shop", f"USAGE ON SCHEMA {own_schema()}", "SELECT, INSERT ON shop.orders")
    with as_role(shop, *grants) as connection:
        refused = pytest.raises(InvalidInput, match=r"only the owner of shop\.orders may add columns .* --provenance")
        with refused, connection.transaction():
            adoption.adopt(connection, settings.current(), "shop.orders", None, provenance=True, again=False)
    with as_role(shop) as connection, pytest.raises(InvalidInput, match=r"permission denied for schema shop"):
        reflection.reflect(connection, "shop.customers")
    with as_role(shop, "USAGE ON SCHEMA shop", "SELECT ON shop.orders") as connection:
        declared = reflection.reflect(connection, "shop.orders")
        with pytest.raises(
            InvalidInput, match=r'no right to INSERT id.* GRANT SELECT, INSERT ON "shop"\."orders" TO it'
        ):
            agreement.check_columns(connection, declared, Mode.INSERT)


def test_a_table_with_rules_is_refused(shop: Shop, imports: Imports) -> None:
    """COPY passes rules by, so that a row which INSERT would leave out, or note elsewhere, would go in unseen."""
    shop.do("""CREATE TABLE shop.ruled (id integer PRIMARY KEY, v integer);
        CREATE RULE "no fives" AS ON INSERT TO shop.ruled WHERE NEW.v = 5 DO INSTEAD NOTHING""")
    for mode in ("insert", "upsert"):
        with pytest.raises(InvalidInput, match=r'"shop"\."ruled" has the rule no fives, .*: make a trigger of it'):
            planned(shop, imports, "shop.ruled", "id,v\n1,5\n", mode=mode)
    shop.do("""ALTER TABLE shop.ruled DISABLE RULE "no fives";
        CREATE RULE kept AS ON DELETE TO shop.ruled DO INSTEAD NOTHING""")
    assert not imports.codes(loaded(shop, imports, "shop.ruled", "id,v\n1,5\n"))
    with pytest.raises(InvalidInput, match="has the rule kept"):
        planned(shop, imports, "shop.ruled", "id,v\n1,6\n", mode="upsert")


def test_references_that_are_no_equality(shop: Shop, imports: Imports) -> None:
    """A row may refer to a stretch of time that several rows cover, or to a row that need not be there."""
    if shop.query("SELECT current_setting('server_version_num')::integer") < [(180_000,)]:
        pytest.skip("such references are known since PostgreSQL 18")
    shop.do("""CREATE TABLE shop.prices (id integer, held daterange, PRIMARY KEY (id, held WITHOUT OVERLAPS));
        INSERT INTO shop.prices VALUES (1, '[2026-01-01,2026-02-01)'), (1, '[2026-02-01,2026-03-01)');
        CREATE TABLE shop.sales (id integer PRIMARY KEY, price integer, held daterange, who integer,
            FOREIGN KEY (price, PERIOD held) REFERENCES shop.prices (id, PERIOD held),
            FOREIGN KEY (who) REFERENCES shop.customers NOT ENFORCED)""")
    text = 'id,price,held,who\n1,1,"[2026-01-05,2026-02-20)",999\n2,1,"[2026-01-05,2026-04-01)",1\n'
    assert imports.codes(loaded(shop, imports, "shop.sales", text)) == {3: ["refused_by_table"]}
    assert shop.query("SELECT id, who FROM shop.sales") == [(1, 999)]
    assert shop.declared("shop.sales").references == ()
    assert shop.declared("shop.prices").referrers == ()
