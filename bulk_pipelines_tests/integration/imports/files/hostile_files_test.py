"""Files that are made to do harm, or are broken: each is refused with one line, or loses only its bad records."""

import bz2
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from bulk_pipelines import settings
from bulk_pipelines.errors import BulkError
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.report.preview import Preview, preview
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines_tests.scenes.people_files import users, workbook, write, zipped

pytestmark = pytest.mark.usefixtures("home")

HEAD = "email,name,role\n"
SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{}</sheetData></worksheet>'
)


def looked_at(path: Path, data: bytes, **options: Any) -> Preview:
    return preview(
        None,
        Options("users", reading=Reading.of(options)),
        RequestedFile.of(str(write(path / "file", data))),
        settings.current(),
    )


def refusal(path: Path, data: bytes, **options: Any) -> str:
    try:
        return looked_at(path, data, **options).problem or ""
    except BulkError as error:
        return str(error)


def zeros(size: int) -> bytes:
    """A zip that unpacks to so many zero bytes."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.csv", "w", force_zip64=True) as part,
    ):
        for _ in range(size >> 20):
            part.write(bytes(1 << 20))
    return out.getvalue()


def book(sheet: str, **parts: str) -> bytes:
    """A workbook whose only sheet is this XML."""
    data = workbook(users(1), engine="openpyxl")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["xl/worksheets/sheet1.xml"] = sheet.encode()
    members |= {name: text.encode() for name, text in parts.items()}
    return zipped(*members.items())


def row(number: int, *cells: str) -> str:
    return f'<row r="{number}">' + "".join(cells) + "</row>"


def text(place: str, value: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'


HEADER = row(1, text("A1", "email"), text("B1", "name"), text("C1", "role"))
GOOD = row(2, text("A2", "a@x.org"), text("B2", "A &amp; B"), text("C2", "reader"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: bz2.compress(bytes(100 << 20)), "more than 200 times its size"),
        (lambda: lzma.compress(bytes(100 << 20)), "more than 200 times its size"),
        (lambda: zeros(100 << 20), "more than 200 times its size"),
        (lambda: zipped(("a.zip", zipped(("b.csv", HEAD.encode())))), "an archive in an archive"),
        (lambda: zipped(("a.csv.gz", zlib.compress(b"x", wbits=31))), "compressed again in the archive"),
        (zipped, "holds no file"),
        (lambda: zipped(("folder/", b"")), "holds no file"),
        (lambda: zipped(("a.csv", HEAD.encode()))[:-30], "damaged"),
        (lambda: zipped(*((f"{number}.csv", b"x") for number in range(1_100))), "more than 1000"),
        (lambda: b"PAR1" + bytes(100), "the table cannot be read"),
        (lambda: b"ARROW1\0\0" + bytes(100), "the table cannot be read"),
        (lambda: b"\xff\xff\xff\xff" + bytes(100), "the table"),
        (lambda: b"\xd0\xcf\x11\xe0" + bytes(100), "old Excel workbook"),
        (lambda: zipped(("[Content_Types].xml", b""), ("xl/workbook.bin", b"")), "a binary workbook"),
        (lambda: b"\xff\xfe" + HEAD.encode(), "do not fit users"),
        (
            lambda: book('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + SHEET.format(HEADER + GOOD)),
            "declares entities",
        ),
        (
            lambda: book(SHEET.format(HEADER + GOOD), **{"xl/workbook.xml": "<!DOCTYPE x []><workbook/>"}),
            "declares entities",
        ),
        (
            lambda: book(SHEET.format(HEADER + row(2, '<c r="A2" t="s"><v>99</v></c>'))),
            "names a text that is not there",
        ),
        (lambda: book(SHEET.format(HEADER + GOOD)[:-30]), "cut off"),
        (lambda: book(SHEET.format(row(5, text("A5", "x")) + row(2, text("A2", "y")))), "not in their order"),
        (lambda: book(SHEET.format("")), "is empty"),
        (
            lambda: book(SHEET.format(HEADER + GOOD + row(3, text("A3", "b@x.org"), '<c r="B3"><f>A2</f><v></v></c>'))),
            "the value of the formula in the cell B3 of the sheet Sheet1 was not saved: open the workbook in Excel",
        ),
        (lambda: book(SHEET.format(HEADER + row(2, '<c r="AB2" t="b"><f t="shared" si="0"/></c>'))), "in the cell AB2"),
        (lambda: book(SHEET.format(HEADER + row(2, "<c r='C2'><f>1</f><v/></c>"))), "in the cell C2"),
    ],
    ids=lambda value: "data" if callable(value) else None,
)
def test_files_that_are_refused(tmp_path: Path, data: Callable[[], bytes], message: str) -> None:
    assert message in refusal(tmp_path, data())


def test_names_in_an_archive_are_only_names(tmp_path: Path) -> None:
    names = ("../../../../tmp/evil.csv", "/etc/evil.csv", "a\\..\\evil.csv")
    before = set(tmp_path.iterdir())
    seen = looked_at(tmp_path, zipped(*((name, (HEAD + "a@x.org,A,reader\n").encode()) for name in names)))
    assert (len(seen.files), seen.rejected, seen.judged) == (3, 0, 1)
    assert {each.name for each in set(tmp_path.iterdir()) - before} <= {"file", "home"}


def test_a_billion_cells_take_no_memory(tmp_path: Path) -> None:
    """Only cells with a value are looked at, wherever they are said to stand."""
    far = row(1_048_576, text("XFD1048576", "x"))
    seen = looked_at(tmp_path, book(SHEET.format(HEADER + GOOD + far)))
    assert (seen.judged, seen.rejected, seen.reasons) == (2, 1, {"malformed_record": 1})
    assert seen.rejects[0].line == 1_048_576
    assert seen.records[0]["name"] == "A & B"


@pytest.mark.parametrize("note", ["", "<!-- -->"])
def test_formulas_are_what_was_saved_of_them(tmp_path: Path, note: str) -> None:
    """The empty text is a value, and what stands before the header is not looked at. The sheet is also read by the
    parser of XML, if it is written in another manner."""
    lost = row(1, '<c r="A1"><f>A2</f><v/></c>')
    header = row(2, text("A2", "email"), text("B2", "name"), text("C2", "role"), text("D2", "slug"))
    email, name = '<c r="A3" t="str"><f>"a@" &amp; x</f><v>a@x.org</v></c>', '<c r="B3"><f>6*7</f><v>42</v></c>'
    good = row(3, email, name, text("C3", "reader"), '<c r="D3" t="str"><f>""</f><v></v></c>')
    seen = looked_at(tmp_path, book(SHEET.format(lost + note + header + good)), skip_lines=1, ignore=["slug"])
    assert seen.rejected == 0
    assert [(record["email"], record["name"]) for record in seen.records] == [("a@x.org", "42")]


def test_a_table_of_other_types_loses_only_bad_records(tmp_path: Path) -> None:
    out = io.BytesIO()
    table = pa.table(
        {
            "email": pa.array([b"a@x.org", b"\xff"], pa.binary()).cast(pa.string(), safe=False),
            "name": pa.array([[1, 2], None], pa.list_(pa.int64())),
            "role": pa.array([{"x": 1}, {"x": 2}]),
            "active": pa.array([1, 2]),
            "created_at": pa.array([-(1 << 62), 0], pa.timestamp("us")),
        }
    )
    pyarrow.parquet.write_table(table, out)
    seen = looked_at(tmp_path, out.getvalue())
    assert (seen.judged, seen.rejected) == (2, 2)
    assert {"invalid_role", "invalid_timestamp", "invalid_encoding", "invalid_active"} <= set(seen.reasons)


def test_a_dictionary_with_one_long_value_stays_small(tmp_path: Path) -> None:
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 5_000_000]))
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"email": long, "name": long, "role": long}), out, compression="zstd")
    assert len(out.getvalue()) < 100_000
    assert "more than 200 times its size" in refusal(tmp_path, out.getvalue())


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (HEAD + "a@x.org,A\0B,reader\n", {"invalid_character": 1}),
        (HEAD + "a@x.org,A,reader\r\nb@x.org,B,reader\nc@x.org,C,reader\rd@x.org,D,reader", {}),
        ("\ufeff" + HEAD + "\ufeffa@x.org,A,reader\n", {"invalid_email_format": 1}),
    ],
)
def test_records_that_are_odd(tmp_path: Path, data: str, codes: dict[str, int]) -> None:
    assert dict(looked_at(tmp_path, data.encode()).reasons) == codes


def test_wrong_bytes_of_an_encoding_lose_only_their_record(tmp_path: Path) -> None:
    good, bad = HEAD + "a@x.org,Ä,reader\n", "b@x.org,B,reader\n".encode("utf-16-le").replace(b"B\0", b"\0\xd8", 1)
    seen = looked_at(tmp_path, good.encode("utf-16") + bad)
    assert (seen.judged, dict(seen.reasons)) == (2, {"invalid_encoding": 1})
    seen = looked_at(tmp_path, good.encode("cp1252") + b"b@x.org,\x81,reader\n", encoding="cp1252")
    assert (seen.judged, dict(seen.reasons)) == (2, {"invalid_encoding": 1})
