"""The pages for people with tables and files of their own: every command that stands there does what the page says."""

import re
from pathlib import Path

import psycopg
import pytest

from bulk_pipelines.drops import sources
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.reader import Reader

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

ROWS = {
    "your-tables.md": (
        "SELECT id, customer_id, total::float FROM shop.orders ORDER BY id",
        [(1, 1, 19.5), (2, 2, 1.0), (3, 2, 1.01), (4, 1, 4.0)],
    ),
    "your-files.md": (
        "SELECT id, name, born::text, salary::float, country, note FROM people ORDER BY id",
        [
            (1, "José", "1980-12-31", 1234.56, None, None),
            (2, "Bob", None, None, None, None),
            (3, "Cy", None, None, None, None),
            (4, "Di Doe", None, None, "DE", None),
            (5, "Ed", None, 10.5, "FR", None),
            (6, "Flo", None, None, "FR", "late"),
            (7, "Gil", "1980-12-31", None, None, None),
            (8, "Hal", "1979-01-02", None, None, None),
            (9, "Jo", None, None, None, None),
            (21, "Dee", None, None, None, None),
            (22, "No \\N here", None, None, None, None),
        ],
    ),
}


@pytest.mark.parametrize("page", ROWS)
def test_every_command_of_the_page_works(page: str, tmp_path: Path, database_url: str, binaries: Path) -> None:
    declared = {"BULK_RESOURCES": str(tmp_path / "declared")}
    reader = Reader(tmp_path / "work", database_url, tmp_path / "home", binaries, declared)
    said = reader.reads(CHECKOUT / "docs" / page)
    query, rows = ROWS[page]
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert connection.execute(query.encode()).fetchall() == rows
    if page == "your-tables.md":
        errors = said["bulk import errors JOB\n"]
        assert "invalid_reference" in errors
        assert "does_not_fit" in errors
        preview = next(text for block, text in said.items() if block.endswith("shop.orders --preview\n"))
        assert "1 of the first 3 records would be rejected" in preview
        assert preview.splitlines()[-1] == "bulk import orders.csv --table shop.orders"
        assert (reader.folder / "out").is_dir()
        assert "\n1,1,19.50" in next(text for block, text in said.items() if "--order=-total" in block)


def test_the_sources_of_the_page_are_sources(tmp_path: Path) -> None:
    (declared,) = re.findall(
        r"^```toml\n(.*?)^```", (CHECKOUT / "docs" / "your-tables.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "drops.toml").write_text(declared)
    (source,) = sources.load(tmp_path / "drops.toml", (), tmp_path / "inbox")
    assert [rule.table for rule in source.rules] == ["shop.customers", "shop.orders"]
