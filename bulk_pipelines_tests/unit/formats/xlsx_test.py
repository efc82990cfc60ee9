"""XLSX files: their cells, their sheets, and that nothing is ever cut."""

import io
import re
import uuid
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import openpyxl
import pyarrow as pa
import pytest

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.formats import xlsx
from bulk_pipelines.formats.xlsx_package import column_letters
from bulk_pipelines_tests.scenes.export_files import read_xlsx

NOW = datetime(2026, 1, 10, 12, 30, 0, 123_000, UTC)


def written(fields: tuple[str, ...], *batches: list[tuple[Any, ...]], resource: str = "articles") -> bytes:
    request = ExportRequest(resource, Format.XLSX, fields)
    schema = xlsx.schema(request.columns)

    def of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([dict(zip(fields, row, strict=True)) for row in rows], schema=schema)

    return b"".join(xlsx.written(request.resource, request.columns, iter([of(rows) for rows in batches])))


def test_cells_have_types() -> None:
    row = (str(uuid.UUID(int=7)), "Ann", True, NOW)
    data = written(("id", "name", "active", "created_at"), [row], resource="users")
    assert read_xlsx(data) == {"users": [("id", "name", "active", "created_at"), row]}


def test_no_moment_is_shown_as_one_of_the_next_day() -> None:
    """What is behind the last whole millisecond of a day is text."""
    last = datetime(2026, 1, 5, 23, 59, 59, 999_000, UTC)
    behind = [last.replace(microsecond=999_000 + more) for more in (1, 499, 999)]
    data = written(("created_at",), [(each,) for each in (last, *behind)], resource="users")
    (_, (number,), *texts) = read_xlsx(data)["users"]
    assert number == last
    assert [datetime.fromisoformat(text) for (text,) in texts] == behind


def test_a_common_reader_sees_the_same() -> None:
    rows = [(str(uuid.UUID(int=7)), "=1+1 <b> & \r\n é", True, NOW), (None, None, False, None)]
    data = written(("id", "name", "active", "created_at"), rows, resource="users")
    sheet = openpyxl.load_workbook(io.BytesIO(data)).worksheets[0]
    assert sheet.title == "users"
    found = list(sheet.iter_rows(values_only=True))
    assert found[1] == (rows[0][0], "=1+1 <b> & _x000D_\n é", True, NOW.replace(tzinfo=None))
    assert found[2] == (None, None, False, None)
    assert sheet["B2"].data_type == "s", "a text that looks like a formula is none"
    assert sheet["D2"].is_date
    assert sheet.freeze_panes == "A2"


def test_no_rows_are_a_sheet_with_its_header() -> None:
    assert read_xlsx(written(("id", "slug"))) == {"articles": [("id", "slug")]}


def test_no_value_is_no_cell_and_empty_text_is_a_cell() -> None:
    data = written(("title", "description", "tags"), [("a", None, None), ("b", "", "[]")])
    assert read_xlsx(data)["articles"][1:] == [("a", None, None), ("b", "", "[]")]


@pytest.mark.parametrize(
    ("moment", "cell"),
    [
        ("1900-03-01T00:00:00", datetime(1900, 3, 1, tzinfo=UTC)),
        ("1900-02-28T23:59:59.999999", "1900-02-28 23:59:59.999999Z"),
        ("9999-12-31T23:59:59.998", datetime(9999, 12, 31, 23, 59, 59, 998_000, UTC)),
        ("9999-12-31T23:59:59.999", datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
        ("9999-12-31T23:59:59.999001", "9999-12-31 23:59:59.999001Z"),
        ("9999-12-31T23:59:59.999999", "9999-12-31 23:59:59.999999Z"),
        ("1969-12-31T23:59:59.999", datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
    ],
)
def test_times_that_excel_has_are_numbers_and_others_text(moment: str, cell: object) -> None:
    data = written(("created_at",), [(datetime.fromisoformat(moment).replace(tzinfo=UTC),)])
    assert read_xlsx(data)["articles"][1] == (cell,)


@pytest.mark.parametrize(
    ("moment", "cell"),
    [
        (253_402_300_800_000_000, "10000-01-01 00:00:00.000000Z"),
        (971_890_963_199_999_999, "32767-12-31 23:59:59.999999Z"),
        (971_890_963_200_000_000, "32768-01-01 00:00:00.000000Z"),
        (9_223_372_036_854_775_807, "294247-01-10 04:00:54.775807Z"),
        (-62_135_596_800_000_000, "0001-01-01 00:00:00.000000Z"),
        (-62_135_596_800_000_001, "0001-12-31 23:59:59.999999Z BC"),
        (-63_517_824_000_000_000, "0044-03-15 00:00:00.000000Z BC"),
        (-210_866_803_200_000_000, "4714-11-24 00:00:00.000000Z BC"),
    ],
)
def test_years_that_have_not_four_digits_are_text(moment: int, cell: str) -> None:
    request = ExportRequest("users", Format.XLSX, ("created_at",))
    far = pa.array([moment, None, 0]).cast(pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_arrays([far], schema=xlsx.schema(request.columns))
    sheet = read_xlsx(b"".join(xlsx.written(request.resource, request.columns, iter([batch]))))["users"]
    assert sheet[1:] == [(cell,), (None,), (datetime(1970, 1, 1, tzinfo=UTC),)]


def test_the_longest_text_fits_and_a_longer_one_is_an_error() -> None:
    longest = "é" * 32_767
    assert read_xlsx(written(("body",), [(longest,)]))["articles"][1] == (longest,)
    with pytest.raises(InvalidInput, match=r"body: row 3 of the sheet has a text of 32,768 characters"):
        written(("body",), [("short",), (longest + "é",)])
    with pytest.raises(InvalidInput, match="32,768"):
        written(("body",), [("\U0001d4b3" * 16_384,)])


def test_sheets_follow_when_one_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "SHEET_ROWS", 4)
    rows = [(f"row {number}",) for number in range(8)]
    header = ("title",)
    assert read_xlsx(written(header, rows[:2], rows[2:])) == {
        "articles": [header, *rows[:3]],
        "articles 2": [header, *rows[3:6]],
        "articles 3": [header, *rows[6:]],
    }
    assert read_xlsx(written(header, rows[:3])) == {"articles": [header, *rows[:3]]}


def test_sheets_follow_when_one_has_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "SHEET_BYTES", 2_000)
    batches = [[("x" * 1_000,)], [("y" * 1_000,)], [("z",)]]
    sheets = read_xlsx(written(("title",), *batches))
    assert [row for sheet in sheets.values() for row in sheet[1:]] == [row for batch in batches for row in batch]
    assert len(sheets) == 2


def test_excels_own_limit_of_rows() -> None:
    request = ExportRequest("users", Format.XLSX, ("active",))

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(11):
            yield pa.RecordBatch.from_arrays([pa.array([True] * 100_000)], schema=xlsx.schema(request.columns))

    data = b"".join(xlsx.written(request.resource, request.columns, batches()))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        first, second = (archive.read(f"xl/worksheets/sheet{number}.xml") for number in (1, 2))
    numbers = [int(each) for each in re.findall(rb'<row r="(\d+)">', first)]
    assert numbers == list(range(1, 1_048_577))
    assert second.count(b"<row ") == 1 + 1_100_000 - 1_048_575


def test_the_same_rows_give_the_same_bytes() -> None:
    assert written(("title",), [("a",)]) == written(("title",), [("a",)])


def test_letters_of_columns() -> None:
    assert [column_letters(index) for index in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
