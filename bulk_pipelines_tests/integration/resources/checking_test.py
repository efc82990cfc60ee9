"""Where a declaration and its table differ is said, each difference once, with whether it stops imports."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources import comparing
from bulk_pipelines.resources.declaration import Column, Fill, Reference, Resource
from bulk_pipelines.resources.rules import OneOf
from bulk_pipelines_tests.scenes.shop import Shop

TABLE = """
CREATE TABLE shop.wares (
    id integer PRIMARY KEY,
    number shop.code NOT NULL DEFAULT 'none' UNIQUE,
    price numeric(10, 2),
    status shop.order_status,
    maker integer REFERENCES shop.customers,
    twin integer REFERENCES shop.wares,
    made timestamptz NOT NULL,
    words tsvector
);
CREATE TABLE shop.sales (ware integer REFERENCES shop.wares, at date);
"""
GRAVE, LIGHT = True, False
DOMAIN = "shop.code, which is character varying({})"

CHANGES: dict[str, tuple[str, list[tuple[bool, str]]]] = {
    "nothing": ("", []),
    "a column goes": (
        "ALTER TABLE shop.wares DROP price",
        [(GRAVE, "the table has no column price")],
    ),
    "a column comes": ("ALTER TABLE shop.wares ADD size text", [(LIGHT, "the table has a column size (text)")]),
    "one that needs a value": (
        "ALTER TABLE shop.wares ADD size text NOT NULL",
        [(GRAVE, "the table has a column size (text), which needs a value")],
    ),
    "one with a default": (
        "ALTER TABLE shop.wares ADD size text NOT NULL DEFAULT ''",
        [(LIGHT, "the table has a column size (text)")],
    ),
    "a column that the table makes comes": (
        "ALTER TABLE shop.wares ADD twice numeric GENERATED ALWAYS AS (price * 2) STORED",
        [],
    ),
    "a column is made by the table": (
        "ALTER TABLE shop.wares DROP price, ADD price numeric(10, 2) GENERATED ALWAYS AS (id * 2) STORED",
        [(GRAVE, "the table makes its column price itself, so no file can give it")],
    ),
    "a number is always given by the table": (
        "ALTER TABLE shop.wares ALTER id ADD GENERATED ALWAYS AS IDENTITY",
        [
            (GRAVE, "the table makes its column id itself, so no file can give it"),
            (GRAVE, "the table has no unique key on id that files can give"),
        ],
    ),
    "another type": (
        "ALTER TABLE shop.wares ALTER price TYPE text",
        [(GRAVE, "its column price is text, but is declared as numeric(10,2)")],
    ),
    "another precision": (
        "ALTER TABLE shop.wares ALTER price TYPE numeric(8, 2)",
        [(GRAVE, "its column price is numeric(8,2), but is declared as numeric(10,2)")],
    ),
    "a domain in place of its type": (
        "ALTER TABLE shop.wares ALTER price TYPE shop.money",
        [(GRAVE, "its column price is shop.money, which is numeric(12,2), but is declared as numeric(10,2)")],
    ),
    "another type of the same name": (
        """ALTER TABLE shop.wares ALTER number TYPE text; ALTER TABLE shop.orders ALTER number TYPE text;
        DROP DOMAIN shop.code; CREATE DOMAIN shop.code AS varchar(5);
        ALTER TABLE shop.wares ALTER number DROP DEFAULT, ALTER number TYPE shop.code, ALTER number SET DEFAULT 'none'
        """,
        [(GRAVE, f"its column number is {DOMAIN.format(5)}, but is declared as {DOMAIN.format(8)}")],
    ),
    "a value is needed": (
        "ALTER TABLE shop.wares ALTER price SET NOT NULL",
        [(LIGHT, "its column price needs a value, and the declaration does not require it")],
    ),
    "none is needed": ("ALTER TABLE shop.wares ALTER made DROP NOT NULL", []),
    "no default": (
        "ALTER TABLE shop.wares ALTER number DROP DEFAULT",
        [(GRAVE, "its column number has no default any more")],
    ),
    "no default, and no value needed": (
        "ALTER TABLE shop.wares ALTER number DROP DEFAULT, ALTER number DROP NOT NULL",
        [],
    ),
    "a default": (
        "ALTER TABLE shop.wares ALTER made SET DEFAULT now()",
        [(LIGHT, "its column made has a default by now, and the declaration does not say so: files must have it")],
    ),
    "a new label": ("ALTER TYPE shop.order_status ADD VALUE 'sent'", [(LIGHT, "its column status also knows sent")]),
    "another label": (
        "ALTER TYPE shop.order_status RENAME VALUE 'paid' TO 'settled'",
        [(GRAVE, "its column status does not know paid"), (LIGHT, "its column status also knows settled")],
    ),
    "a key goes": (
        "ALTER TABLE shop.wares DROP CONSTRAINT wares_number_key",
        [(GRAVE, "the table has no unique key on number that files can give")],
    ),
    "a key comes": (
        "CREATE UNIQUE INDEX ON shop.wares (maker, price)",
        [(LIGHT, "the table has another unique key, on maker, price")],
    ),
    "a key that only the table can judge": ("CREATE UNIQUE INDEX ON shop.wares (price) WHERE id > 9", []),
    "a key of a new column": (
        "ALTER TABLE shop.wares ADD size text UNIQUE",
        [(LIGHT, "the table has a column size (text)")],
    ),
    "a key has another name": (
        "ALTER TABLE shop.wares RENAME CONSTRAINT wares_number_key TO numbers",
        [(LIGHT, "its key on number is called numbers by now, and wares_number_key in the declaration")],
    ),
    "a reference goes": (
        "ALTER TABLE shop.wares DROP CONSTRAINT wares_maker_fkey",
        [(LIGHT, "no foreign key says that maker refers to shop.customers (id): imports go by the declaration")],
    ),
    "a reference comes": (
        "ALTER TABLE shop.wares ADD FOREIGN KEY (price) REFERENCES shop.prices (price)",
        [(LIGHT, "by now price refers to shop.prices (price)")],
    ),
    "a reference to another column": (
        """ALTER TABLE shop.wares DROP CONSTRAINT wares_maker_fkey,
            ADD FOREIGN KEY (maker) REFERENCES shop.customers (other)""",
        [
            (LIGHT, "by now maker refers to shop.customers (other)"),
            (LIGHT, "no foreign key says that maker refers to shop.customers (id): imports go by the declaration"),
        ],
    ),
    "a reference has another name": (
        "ALTER TABLE shop.wares RENAME CONSTRAINT wares_twin_fkey TO twins",
        [(LIGHT, "its reference of twin is called twins by now, and wares_twin_fkey in the declaration")],
    ),
    "the other table goes": (
        "DROP TABLE shop.customers CASCADE",
        [(GRAVE, "the table shop.customers, which maker refers to, is not there")],
    ),
    "the other table loses its column": (
        "ALTER TABLE shop.customers DROP id CASCADE",
        [(GRAVE, "the table shop.customers, which maker refers to, has no column id")],
    ),
    "provenance comes": (
        "SELECT bulk.trace_imports('shop.wares')",
        [(LIGHT, "the table has the columns of provenance")],
    ),
    "a referrer comes": (
        "CREATE TABLE shop.more (ware integer REFERENCES shop.wares)",
        [(LIGHT, "shop.more (ware) refers to it since it was adopted")],
    ),
    "a referrer goes": ("DROP TABLE shop.sales", [(LIGHT, "shop.sales (ware) does not refer to it any more")]),
}


@pytest.fixture
def wares(shop: Shop) -> Resource:
    shop.do(TABLE)
    shop.do("ALTER TABLE shop.customers ADD other integer UNIQUE; CREATE TABLE shop.prices (price numeric UNIQUE)")
    return shop.declared("shop.wares")


def found(shop: Shop, declared: Resource) -> list[tuple[bool, str]]:
    with transaction(shop.engine) as connection:
        return [(each.grave, each.said) for each in comparing.differences(connection, declared)]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_table_is_said(shop: Shop, wares: Resource, change: str) -> None:
    statements, said = CHANGES[change]
    shop.do(statements or "SELECT")
    assert found(shop, wares) == said
    with transaction(shop.engine) as connection:
        if any(grave for grave, _ in said):
            with pytest.raises(InvalidInput, match="is not what its declaration says"):
                comparing.refuse_grave(connection, wares)
        else:
            comparing.refuse_grave(connection, wares)


def test_provenance_that_goes_stops_imports(shop: Shop, wares: Resource) -> None:
    shop.do("SELECT bulk.trace_imports('shop.wares')")
    traced = shop.declared("shop.wares")
    assert found(shop, traced) == []
    shop.do("ALTER TABLE shop.wares DISABLE TRIGGER import_revised")
    assert found(shop, traced) == [(LIGHT, "changes of rows of shop.wares are not noted, so no import is undone")]
    shop.do("ALTER TABLE shop.wares DROP import_job CASCADE, DROP import_line CASCADE, DROP import_revised CASCADE")
    assert found(shop, traced) == [(GRAVE, "the table lacks the columns of provenance")]
    shop.do("ALTER TABLE shop.wares ADD import_line integer")
    with pytest.raises(InvalidInput, match="has a column import_line, and imports use this name"):
        found(shop, traced)


def edited(wares: Resource, name: str, change: Callable[[Column], Column]) -> Resource:
    return replace(wares, columns=tuple(change(each) if each.name == name else each for each in wares.columns))


def test_what_people_write_is_no_difference(shop: Shop, wares: Resource) -> None:
    narrowed = edited(wares, "status", lambda each: replace(each, rules=(OneOf(("new", "paid"), "x"),)))
    assert found(shop, narrowed) == [(LIGHT, "its column status also knows gone missing")]
    assert found(shop, edited(wares, "status", lambda each: replace(each, rules=()))) == []
    assert found(shop, edited(wares, "price", lambda each: replace(each, required=True, in_files="Price"))) == []
    filled = edited(wares, "made", lambda each: replace(each, fill=Fill.IMPORT_TIME, has_default=True))
    assert found(shop, filled) == []
    without = replace(wares, columns=tuple(each for each in wares.columns if each.name not in ("maker", "price")))
    without = replace(without, references=tuple(each for each in wares.references if each.column != "maker"))
    assert found(shop, without) == [
        (LIGHT, "the table has a column price (numeric(10,2))"),
        (LIGHT, "the table has a column maker (integer)"),
    ]
    shop.do("CREATE UNIQUE INDEX ON shop.wares (price)")
    assert len(found(shop, without)) == 2, "nor is a key of a column that nobody wants"


def test_a_reference_of_ones_own(shop: Shop, wares: Resource) -> None:
    own = Reference("price", "prices", "x", "", schema="shop", to=("price",))
    said = "no foreign key says that price refers to shop.prices (price): imports go by the declaration"
    assert found(shop, replace(wares, references=(*wares.references, own))) == [(LIGHT, said)]
    gone = replace(own, resource="nothing")
    said = "the table shop.nothing, which price refers to, is not there"
    assert found(shop, replace(wares, references=(*wares.references, gone))) == [(GRAVE, said)]


def test_a_table_that_this_role_may_not_look_up(shop: Shop, wares: Resource, importer: Engine) -> None:
    shop.do("GRANT USAGE ON SCHEMA shop TO importer; GRANT SELECT, INSERT ON shop.wares TO importer")
    with transaction(importer) as connection:
        said = [(each.grave, each.said) for each in comparing.differences(connection, wares)]
    told = "this role may not read shop.customers, which maker refers to: GRANT SELECT ON shop.customers TO it"
    assert said == [(GRAVE, told)]
    shop.do("GRANT SELECT ON shop.customers TO importer; ALTER TABLE shop.customers ENABLE ROW LEVEL SECURITY")
    with transaction(importer) as connection:
        said = [(each.grave, each.said) for each in comparing.differences(connection, wares)]
    told = "row-level security of shop.customers, which maker refers to, holds for this role"
    assert said == [(GRAVE, told)]
