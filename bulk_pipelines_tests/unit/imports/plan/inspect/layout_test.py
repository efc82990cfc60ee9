"""What a file is, and the errors that are about the file as a whole."""

from pathlib import Path

import pytest

from bulk_pipelines import resources
from bulk_pipelines.errors import InvalidInput, Unavailable
from bulk_pipelines.imports.context import matching_key
from bulk_pipelines.imports.plan.cut import ranges as cutting
from bulk_pipelines.imports.plan.cut.ranges import Range
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.land.landed_file import LocalFile

USERS = resources.find("users")
HEAD = "email,name,role\n"
LINE = "a@x.org,A,reader\n"


def examined(path: Path, data: str | bytes, told: str | None = None) -> tuple[Layout, list[Range]]:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with LocalFile(path) as source:
        found = layout.inspect(source, USERS, told)
        return found, cutting.cut(source, found, 1 << 30)


@pytest.mark.parametrize(
    ("data", "told", "field", "message"),
    [
        ("", None, "source", "the file is empty"),
        ("\ufeff", None, "source", "the file is empty"),
        (" \n\n", None, "source", "only white space"),
        (HEAD, None, "source", "a header and no records"),
        (HEAD.strip(), None, "source", "a header and no records"),
        (HEAD + "\r\n\n", None, "source", "a header and no records"),
        ("email,name\n", None, "source", "missing: role"),
        ("email,name,role,name\n", None, "source", "named twice: name"),
        ("email,name,role,actve\n", None, "source", r'unknown: "actve" \(meant active\?\) \(--ignore-extra leaves'),
        ("email,name,role,Active,active!\n", None, "source", 'unknown: "Active" .*, "active!" '),
        ("email,name,role,\n", None, "source", 'unknown: ""'),
        ("x,email,email\n", None, "source", "named twice: email .*; unknown: .*; missing: name, role"),
        ("email;name;role\n", None, "source", "a header and no records"),
        ("1,2,3\n4,5,6\n", None, "source", "no header, say --no-header"),
        ("Users\n\n;;\nemail;name;role\n", None, "source", "line 4 looks like the header of users: --skip-lines 3"),
        ('"email,name,role\n', None, "source", "header of the CSV file cannot be read"),
        (b"\xe9mail,name,role\n", None, "source", "header of the CSV file is not UTF-8"),
        ("x" * 2_000_000, None, "source", "no CSV header"),
        ("[]", None, "source", "holds no records"),
        ("[ \n ]", None, "source", "holds no records"),
        ("[{}", None, "source", "never closed: element 1, at byte 1"),
        ('[{"a": "]}', None, "source", "never closed"),
        ("[{}, {}] x", None, "source", "at byte 9 there is more behind the end"),
        ("[{}, ]", None, "source", "ends with a comma"),
        (b"\x1f\x8b123", None, "source", "the file is gzip"),
        (HEAD + LINE, "xml", "format", "'xml' is not one of csv, ndjson, json, xlsx, parquet, arrow"),
        (HEAD + LINE, "json", "format", "said to be json, but it looks like csv"),
        (HEAD + LINE, "ndjson", "format", "said to be ndjson, but it looks like csv"),
        ('{"a": 1}', "csv", "format", "said to be csv, but it looks like ndjson"),
        ("[1]", "ndjson", "format", "said to be ndjson, but it looks like json"),
    ],
)
def test_a_file_that_cannot_be_imported(
    tmp_path: Path, data: str | bytes, told: str | None, field: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as found:
        examined(tmp_path / "file", data, told)
    assert found.value.field == field


def test_columns_in_any_order_behind_a_bom_and_blank_lines(tmp_path: Path) -> None:
    found, (piece,) = examined(tmp_path / "file", '\ufeff\r\n\r\n"role", email ,name\r\nreader,a@x.org,A')
    assert (found.format, found.columns, found.first_line) == (Format.CSV, ("role", "email", "name"), 4)
    assert found.header == b'"role", email ,name'
    assert piece == Range(found.start, found.start + len("reader,a@x.org,A"), 4)


@pytest.mark.parametrize(("data", "kind"), [(' \n{"a": 1}', Format.NDJSON), ("\ufeff [{}]", Format.JSON)])
def test_json_is_recognised_behind_white_space(tmp_path: Path, data: str, kind: Format) -> None:
    assert examined(tmp_path / "file", data)[0].format is kind


def test_ranges_are_of_even_size_and_know_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(HEAD + LINE * 1_000)
    with LocalFile(path) as source:
        found = layout.inspect(source, USERS)
        ranges = cutting.cut(source, found, len(LINE) * 300)
        more = cutting.cut(source, found, len(LINE) * 220)
    assert [(each.stop - each.start) // len(LINE) for each in ranges] == [250, 250, 250, 250]
    assert [each.first_line for each in ranges] == [2, 252, 502, 752]
    # The last two of eight ranges are cut again, so that lanes end together.
    lengths = [round((each.stop - each.start) / len(LINE)) for each in more]
    assert lengths[:6] == [125] * 6
    assert sum(lengths[6:]) == 250
    assert set(lengths[6:]) <= {41, 42, 43}
    assert len(lengths) == 12


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be opened"):
        LocalFile(tmp_path / "nothing")


def test_the_key_of_an_upsert() -> None:
    assert matching_key(USERS, None, ("email", "id")).column == "id"
    assert matching_key(USERS, None, ("email", "name")).column == "email"
    assert matching_key(USERS, "email", ("id", "email")).column == "email"
    for told, columns, message in [
        ("name", ("name",), "'name' is not a key of users: id, email"),
        ("email", ("id",), "no column email"),
        (None, ("name",), "none of the keys"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            matching_key(USERS, told, columns)
