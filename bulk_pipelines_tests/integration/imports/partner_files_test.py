"""What is odd about files of partners is recognised where that is certain, and told in words that say what helps."""

import io
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.report.preview import Preview, preview
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines_tests.scenes import shop as shops
from bulk_pipelines_tests.scenes.shop import Shop
from bulk_pipelines_tests.scenes.whole_imports import begun, imported, submitted

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def shop(engine: Engine) -> Shop:
    shop = shops.opened(engine)
    shop.do("CREATE TABLE shop.sales (id integer PRIMARY KEY, who text, total numeric(10, 2), pieces integer)")
    return shop


def looked_at(shop: Shop, path: Path) -> Preview:
    declared = shop.declared("shop.sales")
    options = Options(declared.name, declaration=declared)
    return preview(shop.engine, options, RequestedFile.of(str(path)), settings.current())


def sold(shop: Shop, path: Path, found: Preview) -> list[tuple[Any, ...]]:
    declared = shop.declared("shop.sales")
    imported(shop.engine, declared.name, path, declaration=declared, reading=found.reading)
    return shop.query("SELECT id, who, total::text FROM shop.sales ORDER BY id")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark(shop: Shop, tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "sales.txt"
    path.write_bytes("id\twho\n1\tMüller\n2\t日本\n".encode(encoding))
    declared = shop.declared("shop.sales")
    with pytest.raises(InvalidInput, match=f"UTF-16 without a byte order mark: say --encoding {encoding}"):
        begun(shop.engine, submitted(shop.engine, declared.name, [path], declaration=declared))
    found = looked_at(shop, path)
    assert found.remedy == {"encoding": encoding}
    assert sold(shop, path, found) == [(1, "Müller", None), (2, "日本", None)]


def test_a_file_that_is_no_text(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "sales.tar"
    path.write_bytes(b"sales.csv" + b"\0" * 91 + b"0000644\0id,who\n1,x\n")
    declared = shop.declared("shop.sales")
    with pytest.raises(InvalidInput, match="the first line holds NUL characters, so this is no CSV, or in an encoding"):
        begun(shop.engine, submitted(shop.engine, declared.name, [path], declaration=declared))
    assert "the first line holds NUL characters" in (looked_at(shop, path).problem or "")


def test_a_preview_proposes_the_decimal_comma(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("id;who;total\n1;A;1.234,56\n2;B;0,5\n3;C;12\n")
    found = looked_at(shop, path)
    assert found.problem == "numbers such as 1.234,56 have a decimal comma: say --decimal comma"
    assert (found.remedy, found.rejected) == ({"decimal": ","}, 0)
    assert sold(shop, path, found) == [(1, "A", "1234.56"), (2, "B", "0.50"), (3, "C", "12.00")]


@pytest.mark.parametrize("text", ["1,A,1.5\n2,B,x\n", '1,A,"1,234"\n', '1,"2,5",1\n', '1,A,"1,5"\n2,A,1.5\n3,A,2.5\n'])
def test_a_preview_proposes_no_comma_that_does_not_help(shop: Shop, tmp_path: Path, text: str) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("id,who,total\n" + text)
    found = looked_at(shop, path)
    assert (found.problem, found.remedy) == (None, {})


def test_a_preview_of_several_sheets_names_them(shop: Shop, tmp_path: Path) -> None:
    """Also if the first of them, which it tries, is none of this table."""
    book = openpyxl.Workbook()
    book.active.append(["Report"])
    book.create_sheet("Sales").append(["id", "who"])
    data = io.BytesIO()
    book.save(data)
    path = tmp_path / "sales.xlsx"
    path.write_bytes(data.getvalue())
    assert looked_at(shop, path).problem == "the workbook has the sheets 'Sheet', 'Sales': say --sheet NAME"


def test_fields_that_are_missing_or_doubled_say_what_helps(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("who,total,total\nA,1,2\n")
    assert looked_at(shop, path).problem == (
        "the columns of the file do not fit shop.sales: named twice: total (--skip-lines, --no-header and --fields"
        " give other names); missing: id (--map COLUMN=FIELD, --constant COLUMN=VALUE or --expression give a value)"
    )
