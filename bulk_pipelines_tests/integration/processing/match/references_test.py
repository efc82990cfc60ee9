"""References from tables of a real PostgreSQL, and from rows of a file."""

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.entries import Entry, Query
from bulk_pipelines.processing.matching.matching import match
from bulk_pipelines.processing.matching.references import Columns, load, stream, table_named

COLUMNS = Columns(("label", "aliases"), "key", "about", ("kinds",), ("country",), ("site",))


@pytest.fixture
def table(engine: Engine) -> str:
    with pool.transaction(engine) as connection:
        connection.execute('CREATE SCHEMA "our things"')
        connection.execute(
            'CREATE TABLE "our things"."Brands" (key bigint, label text, aliases text[], about text, kinds text,'
            " country text, site text)"
        )
        connection.execute(
            """
            INSERT INTO "our things"."Brands" VALUES
                (2, 'Bauhaus; Cologne', '{Haus, NULL, " "}', NULL, 'shop; retailer', 'de;at', 'https://bauhaus.info'),
                (1, 'Papa Gino''s', NULL, 'pizzeria', NULL, '', ''),
                (NULL, 'Nobody', NULL, NULL, NULL, NULL, NULL)
            """
        )
    return "our things.Brands"


def test_the_rows_of_a_table_become_entries(engine: Engine, table: str) -> None:
    with pool.transaction(engine) as connection:
        assert list(stream(connection, table_named(table), COLUMNS)) == [
            Entry("1", ("Papa Gino's",), "pizzeria"),
            Entry(
                "2",
                ("Bauhaus; Cologne", "Haus"),
                "",
                ("shop", "retailer"),
                ("de", "at"),
                ("https://bauhaus.info",),
            ),
        ]


def test_rows_are_matched_against_a_table(engine: Engine, table: str) -> None:
    index = load(engine, table, COLUMNS)

    (result,) = match(index, [Columns(("name",), countries=("land",)).query({"name": "bauhaus cologne", "land": "DE"})])

    assert len(index) == 2
    assert result.best
    assert result.best.id == "2"


def test_a_large_table_is_streamed_in_order(engine: Engine) -> None:
    with pool.transaction(engine) as connection:
        connection.execute(
            "CREATE TABLE public.many AS SELECT n AS key, 'Name ' || n AS label FROM generate_series(1, 12000) n"
        )

    index = load(engine, "many", Columns(("label",), "key"))

    assert len(index) == 12_000
    assert match(index, [Query(("name 11999",))])[0].candidates[0].id == "11999"


def test_names_of_columns_and_tables_are_never_sql(engine: Engine) -> None:
    evil = 'users"; DROP TABLE users; --'
    with pytest.raises(InvalidInput, match="is no name of a table"):
        load(engine, evil, Columns(("name",), "id"))
    for table in ('"' + evil.replace('"', '""') + '"', "users"):
        with pytest.raises(Exception, match="does not exist"):
            load(engine, table, Columns(('x" FROM users; --',), "id"))
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT to_regclass('users') IS NOT NULL").fetchone() == (True,)


def test_a_reference_needs_names_and_ids(engine: Engine) -> None:
    with pytest.raises(InvalidInput, match="names"):
        Columns(())
    with pytest.raises(InvalidInput, match="id"):
        load(engine, "users", Columns(("name",)))


def test_rows_of_a_file_become_entries_in_the_same_way() -> None:
    row = {"key": " 7 ", "label": "A;B", "aliases": "C; D;", "site": "https://a.de;https://b.de", "country": None}

    assert COLUMNS.entry(row) == Entry("7", ("A;B", "C", "D"), websites=("https://a.de", "https://b.de"))
