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
    """The preview names the sheets even if the first of them, which it tries, is none of this table."""
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


def test_a_preview_proposes_the_only_field_that_may_mean_a_missing_column(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("IDs,who,Shoe size\n1,A,38\n2,B,40\n")
    found = looked_at(shop, path)
    assert found.problem is not None
    assert 'unknown: "IDs" (meant id?)' in found.problem
    assert (found.remedy, found.rejected) == ({"map": (("id", "IDs"),), "ignore_extra": True}, 0)
    assert found.left_out == ("Shoe size",)
    assert [(number, who) for number, who, _ in sold(shop, path, found)] == [(1, "A"), (2, "B")]


def test_a_header_in_single_quotes_is_refused_with_the_option_that_reads_it(shop: Shop, tmp_path: Path) -> None:
    """Otherwise the quotes would be loaded as a part of the texts."""
    path = tmp_path / "sales.csv"
    path.write_text("'id';'who';'total'\n'1';'A; B';'1.50'\n")
    found = looked_at(shop, path)
    assert found.problem == 'all names of the header stand in single quotes: say --quote "\'"'
    assert (found.remedy, found.rejected) == ({"quote": "'"}, 0)
    assert sold(shop, path, found) == [(1, "A; B", "1.50")]


def test_a_preview_does_not_choose_between_two_fields(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("id1,id2,who\n1,2,A\n")
    found = looked_at(shop, path)
    assert (found.remedy, found.columns) == ({}, ())


HEADED = "id;who;total\n1;A;1.00;\n2;B;2.00;\n"


@pytest.mark.parametrize("before", ["", "Report\n\n"])
def test_records_that_end_with_a_delimiter(shop: Shop, tmp_path: Path, before: str) -> None:
    """The records have one field more than the header, which is empty."""
    path = tmp_path / "sales.csv"
    path.write_text(before + HEADED)
    found = looked_at(shop, path)
    assert ("skip-lines" if before else "end with a delimiter that the header lacks") in (found.problem or "")
    lines = 1 + before.count("\n")
    assert found.remedy == {
        "skip_lines": lines,
        "no_header": True,
        "fields": ("id", "who", "total", "field 4"),
        "ignore": ("field 4",),
    }
    assert (found.judged, found.rejected) == (2, 0)
    assert sold(shop, path, found) == [(1, "A", "1.00"), (2, "B", "2.00")]


@pytest.mark.parametrize("more", ["3;C;3.00\n", "3;C;3.00;x\n", "3;C;3.00;;\n"])
def test_records_that_do_not_all_end_so(shop: Shop, tmp_path: Path, more: str) -> None:
    path = tmp_path / "sales.csv"
    path.write_text(HEADED + more)
    found = looked_at(shop, path)
    assert (found.problem, found.remedy) == (None, {})
    assert found.reasons == {"malformed_record": 2 if more == "3;C;3.00\n" else 3}


def test_a_record_that_ends_with_a_delimiter_says_so(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("id;who;total\n1;A;1.00;\n2;B;2.00;x\n")
    (first, second) = looked_at(shop, path).rejects
    assert first.reasons[0]["detail"] == "4 fields instead of 3, and the last one is empty: see --preview"
    assert second.reasons[0]["detail"] == "4 fields instead of 3"


DATED = [
    ("31.12.2026", "05.01.2026", "%d.%m.%Y"),
    ("12/31/2026", "1/5/2026", "%m/%d/%Y"),
    ("31.12.2026 14:30", "05.01.2026 00:00", "%d.%m.%Y %H:%M"),
    ("12-31-2026 14:30:59", "01-05-2026 00:00:00", "%m-%d-%Y %H:%M:%S"),
]


@pytest.fixture
def dated(shop: Shop) -> Shop:
    shop.do("DROP TABLE shop.sales; CREATE TABLE shop.sales (id integer PRIMARY KEY, day timestamp, born date)")
    return shop


@pytest.mark.parametrize(("one", "other", "form"), DATED)
def test_a_preview_proposes_the_form_of_dates(dated: Shop, tmp_path: Path, one: str, other: str, form: str) -> None:
    path = tmp_path / "sales.csv"
    path.write_text(f"id,day\n1,{other}\n2,{one}\n3,\n")
    found = looked_at(dated, path)
    assert found.problem == f"dates such as {one} are read with --date day={form}"
    assert (found.remedy, found.rejected) == ({"dates": (("day", form),)}, 0)
    declared = dated.declared("shop.sales")
    imported(dated.engine, declared.name, path, declaration=declared, reading=found.reading)
    assert dated.query("SELECT day::date::text FROM shop.sales ORDER BY id") == [
        ("2026-01-05",),
        ("2026-12-31",),
        (None,),
    ]


def test_several_columns_have_forms_of_their_own(dated: Shop, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("id,day,born\n1,31.12.2026,12/31/2026\n2,05.01.2026,01/05/2026\n")
    found = looked_at(dated, path)
    assert found.remedy == {"dates": (("day", "%d.%m.%Y"), ("born", "%m/%d/%Y"))}
    assert found.rejected == 0


def test_ambiguous_dates_are_named_and_not_guessed(dated: Shop, tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("id,day\n1,05.01.2026\n2,11.12.2026\n")
    found = looked_at(dated, path)
    assert found.problem == (
        "dates such as 05.01.2026 can be read in several ways: say --date day=%d.%m.%Y or --date day=%m.%d.%Y"
    )
    assert (found.remedy, found.rejected) == ({}, 2)


@pytest.mark.parametrize("days", ["31.12.2026\n2,12.31.2026", "2026-12-31\n2,2026-01-05", "31.02.2026", "soon"])
def test_dates_that_no_form_helps(dated: Shop, tmp_path: Path, days: str) -> None:
    path = tmp_path / "sales.csv"
    path.write_text(f"id,day\n1,{days}\n")
    found = looked_at(dated, path)
    assert (found.problem, found.remedy) == (None, {})
