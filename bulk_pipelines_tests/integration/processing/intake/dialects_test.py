"""Rows are read as files of imports are: in every dialect, encoding and form that is told, or seen."""

import io
import zipfile
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.processing import trial
from bulk_pipelines.processing.intake.rows import UNREADABLE
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes.processing import Scene

PLAIN = [{"title": "Süßer Senf", "brand": "Äpfel & Co"}, {"title": 'a "b"; c', "brand": ""}]
SEMICOLON = 'title;brand\nSüßer Senf;Äpfel & Co\n"a ""b""; c";\n'


def workbook(*rows: list[Any]) -> bytes:
    book, out = openpyxl.Workbook(write_only=True), io.BytesIO()
    sheet = book.create_sheet("Rows")
    for row in rows:
        sheet.append(row)
    book.save(out)
    return out.getvalue()


def table(**columns: Any) -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), out)
    return out.getvalue()


ROWS: list[tuple[str, dict[str, Any], bytes, list[dict[str, Any]]]] = [
    ("semicolons are seen", {}, SEMICOLON.encode(), PLAIN),
    ("so are tabs", {}, b"title\tbrand\na\tb\n", [{"title": "a", "brand": "b"}]),
    ("and bars", {}, b"title|brand\na,x|b;y\n", [{"title": "a,x", "brand": "b;y"}]),
    ("commas are what is usual", {}, b"title,brand\na;b,c\n", [{"title": "a;b", "brand": "c"}]),
    ("a delimiter", {"delimiter": "space"}, b"title brand\na b\n", [{"title": "a", "brand": "b"}]),
    ("cp1252", {"encoding": "cp1252"}, SEMICOLON.encode("cp1252"), PLAIN),
    ("the mark of UTF-16", {}, SEMICOLON.encode("utf-16"), PLAIN),
    ("UTF-16 in NDJSON", {}, '{"title": "ä"}\n'.encode("utf-16"), [{"title": "ä"}]),
    ("a quote", {"quote": "'"}, b"title,brand\n'a,b','c''d'\n", [{"title": "a,b", "brand": "c'd"}]),
    ("no quote", {"quote": "none"}, b'title,brand\n"a,b"\n', [{"title": '"a', "brand": 'b"'}]),
    ("an escape", {"escape": "\\"}, b'title,brand\na\\,b,"c\\"d"\n', [{"title": "a,b", "brand": 'c"d'}]),
    ("lines before", {"skip_lines": 2}, b'"what, ever\n{}\ntitle\na\n', [{"title": "a"}]),
    ("lines before NDJSON", {"skip_lines": 1}, b'hello\n{"title": "a"}\n', [{"title": "a"}]),
    ("no header", {"no_header": True}, b"a\nb\n", [{"title": "a"}, {"title": "b"}]),
    (
        "named fields",
        {"no_header": True, "fields": "brand,title"},
        b"a;b\n",
        [{"brand": "a", "title": "b"}],
    ),
    (
        "spellings of no value",
        {"nulls": ["NULL", "-"]},
        b'title,brand\nNULL,"NULL"\n-,"a,""NULL"\n',
        [{"title": None, "brand": "NULL"}, {"title": None, "brand": 'a,"NULL'}],
    ),
    (
        "spellings of no value in JSON",
        {"nulls": ["n/a", "-999"]},
        b'{"title": "n/a", "brand": ["n/a"], "price": -999}\n{"title": "a", "brand": null, "price": 1}\n',
        [{"title": None, "brand": ["n/a"], "price": None}, {"title": "a", "brand": None, "price": 1}],
    ),
    (
        "decimal commas",
        {"decimal": "comma"},
        b"title;price;day\nA 1,5;1.234,50;1,2,3\n-0,5;1.234;0.125\n",
        [
            {"title": "A 1,5", "price": "1234.50", "day": "1,2,3"},
            {"title": "-0.5", "price": "1234", "day": "0.125"},
        ],
    ),
    (
        "decimal commas of texts alone",
        {"decimal": "comma", "expressions": {"half": "replace(price, ',', '.')::numeric / 8"}},
        workbook(["title", "price"], ["1.234", 1.234], ["0,5", 0.125], ["A", 7]),
        [
            {"title": "1234", "price": "1.234", "half": "0.15425000000000000000"},
            {"title": "0.5", "price": "0.125", "half": "0.01562500000000000000"},
            {"title": "A", "price": "7", "half": "0.87500000000000000000"},
        ],
    ),
    (
        "decimal commas in Parquet",
        {"decimal": "comma", "nulls": ["-999", "n/a"]},
        table(title=["1.234", "n/a"], price=[1.234, -999.0], day=pa.array(["n/a", "b"], pa.large_string())),
        [{"title": "1234", "price": "1.234", "day": None}, {"title": None, "price": None, "day": "b"}],
    ),
    (
        "dates",
        {"dates": {"born": "%d.%m.%Y"}},
        b"title,born\na,1.2.2026\nb,\n",
        [{"title": "a", "born": "2026-02-01"}, {"title": "b", "born": ""}],
    ),
    (
        "a map, and a constant",
        {"map": {"title": "Produkt"}, "constants": {"shop": "x"}},
        b"Nr;Produkt\n1;a\n",
        [{"Nr": "1", "title": "a", "shop": "x"}],
    ),
    (
        "a field for two columns",
        {"map": {"title": "Produkt", "brand": "produkt"}},
        b"Nr;Produkt\n1;a\n",
        [{"Nr": "1", "title": "a", "brand": "a"}],
    ),
    ("fields that are left out", {"ignore": ["Note"]}, b"title,note\na,b\n", [{"title": "a"}]),
    ("all others", {"ignore_extra": True}, b"x,title,brand,y\n1,a,b,2\n", [{"title": "a", "brand": "b"}]),
    (
        "expressions",
        {"expressions": {"title": "first || ' ' || \"last\"", "n": "length(first)"}, "ignore": ["first", "Last"]},
        b"First,Last\nAda,King\nBob,\n",
        [{"title": "Ada King", "n": "3"}, {"title": "Bob ", "n": "3"}],
    ),
    (
        "JSON in another shape",
        {"map": {"title": "Name"}, "ignore": ["late"], "constants": {"brand": "b"}},
        b'{"Name": "a", "n": 1}\n{"Name": "c", "late": [1]}\n',
        [{"title": "a", "n": 1, "brand": "b"}, {"title": "c", "brand": "b"}],
    ),
]


@pytest.fixture(autouse=True)
def shop(scene: Scene) -> None:
    scene.shop("http://127.0.0.1:9/")


def read(scene: Scene, name: str, data: bytes, told: dict[str, Any]) -> list[dict[str, Any]]:
    """Read a file by a job and by a trial, which come to the same."""
    path = scene.file(data, name)
    job = scene.planned(source=path, reading=Reading.of(told))
    rows = scene.inputs(job)
    recipe = library.load(current()).recipe("products")
    assert trial.first_rows(scene.pool, recipe, path, 100, current(), Reading.of(told)) == rows
    return rows


@pytest.mark.parametrize(("told", "data", "wanted"), [each[1:] for each in ROWS], ids=[each[0] for each in ROWS])
def test_a_file_is_read_as_it_is_written(
    scene: Scene, told: dict[str, Any], data: bytes, wanted: list[dict[str, Any]]
) -> None:
    assert read(scene, "rows", data, told) == wanted


@pytest.mark.parametrize(
    ("told", "data", "message"),
    [
        ({"skip_lines": 1}, table(title=["a"]), "skip_lines: has no meaning in arrow or parquet"),
        ({"delimiter": ";"}, workbook(["title"], ["a"]), "delimiter: has no meaning in xlsx"),
        ({"no_header": True}, b'{"title": "a"}\n', "no_header: has no meaning in ndjson"),
        ({"sheet": "Rows"}, b"title\na\n", "sheet: has no meaning in csv"),
    ],
)
def test_an_option_that_has_no_meaning_in_a_format_is_refused(
    scene: Scene, told: dict[str, Any], data: bytes, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(scene, "rows", data, told)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a", data)
        archive.writestr("b.csv", "title\nb\n")
    assert read(scene, "rows.zip", packed.getvalue(), {"sheet": "Rows"})[-1] == {"title": "b"}


def test_a_sheet_of_several(scene: Scene) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(["nothing"])
    sheet = book.create_sheet("Products")
    for row in (["a report"], ["-", 1.5], ["b", "c"]):
        sheet.append(row)
    into = io.BytesIO()
    book.save(into)
    told = {"sheet": "Products", "skip_lines": 1, "no_header": True, "fields": ["title", "n"], "nulls": ["-"]}
    assert read(scene, "rows.xlsx", into.getvalue(), told) == [{"title": None, "n": "1.5"}, {"title": "b", "n": "c"}]
    with pytest.raises(InvalidInput, match="say --sheet NAME"):
        read(scene, "rows.xlsx", into.getvalue(), {})


def test_the_files_of_an_archive(scene: Scene) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in (["brand", "title"], ["x", "c"]):
        book.active.append(row)
    sheet, into = io.BytesIO(), io.BytesIO()
    book.save(sheet)
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", "title;brand\na;1\n")
        archive.writestr("b.ndjson", '{"title": "b", "brand": "2"}\n')
        archive.writestr("c.xlsx", sheet.getvalue())
        archive.writestr("readme.txt", "no rows")
        archive.writestr("__MACOSX/a.csv", "litter")
    found = read(scene, "rows.zip", into.getvalue(), {"member": "[abc].*"})
    assert found == [{"title": "a", "brand": "1"}, {"title": "b", "brand": "2"}, {"title": "c", "brand": "x"}]
    with pytest.raises(InvalidInput, match="readme.txt has the columns no rows, and a.csv has title, brand"):
        read(scene, "rows.zip", into.getvalue(), {})
    with pytest.raises(InvalidInput, match="no file like"):
        read(scene, "rows.zip", into.getvalue(), {"member": "*.tsv"})


@pytest.mark.parametrize(
    ("told", "data", "said"),
    [
        ({}, SEMICOLON.encode("cp1252"), "say --encoding cp1252"),
        ({"skip_lines": 3}, b"title\na\n", "no more than 3 lines"),
        (
            {"no_header": True, "delimiter": ","},
            b"a,b\n",
            "the recipe needs 1 column, and the first record has 2 fields",
        ),
        ({"no_header": True, "fields": "title,x"}, b"a\n", "names 2 fields, and the first record has 1"),
        ({"no_header": True, "fields": "title"}, b'{"title": "a"}\n', "records of JSON name their own"),
        ({"map": {"title": "Prodct"}}, b"Product\na\n", 'no field "Prodct"'),
        ({"map": {"title": "Product"}}, b"title,Product\na,b\n", "--ignore title"),
        ({"dates": {"bron": "%Y"}}, b"title,born\na,2\n", 'no column "bron" \\(meant born\\?\\)'),
        ({"expressions": {"x": "nothing"}}, b"title\na\n", 'column "nothing" does not exist'),
        ({"expressions": {"x": "1); DROP TABLE job; --"}}, b"title\na\n", "not one expression"),
        ({"sheet": "x", "encoding": "utf-16"}, "title\na\n".encode("utf-8-sig"), "begins with the mark of utf-8"),
    ],
)
def test_what_does_not_fit_is_refused(scene: Scene, told: dict[str, Any], data: bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(scene, "rows", data, told)


def test_a_row_that_is_not_as_told_fails_alone(scene: Scene) -> None:
    told = {"dates": {"born": "%d.%m.%Y"}, "expressions": {"n": "age::int"}}
    data = b"title,born,age\na,31.02.2026,1\nb,1.1.2026,old\nc,1.1.2026,3\nd\n"
    found = read(scene, "rows", data, told)
    assert found[2] == {"title": "c", "born": "2026-01-01", "age": "3", "n": "3"}
    assert [row.get(UNREADABLE) for row in found] == [
        "born: '31.02.2026' is no date of the form %d.%m.%Y",
        'n: invalid input syntax for type integer: "old"',
        None,
        "1 field instead of 3",
    ]


def test_what_is_said_of_files_is_not_said_of_queries_and_pictures(scene: Scene) -> None:
    with pytest.raises(InvalidInput, match="is for files only") as error:
        scene.submitted(query="SELECT 'a' AS title", reading=Reading.of({"delimiter": ";"}))
    assert error.value.field == "delimiter"
