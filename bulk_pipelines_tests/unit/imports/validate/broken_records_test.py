"""What is said of records that cannot be read as their format wants it, and that their neighbours do not suffer."""

from pathlib import Path

import pytest

from bulk_pipelines import resources
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.land.landed_file import LocalFile
from bulk_pipelines.imports.records import blocks
from bulk_pipelines_tests.scenes.import_runs import Pace
from bulk_pipelines_tests.scenes.validated import HEAD, LINE, USER, csv_of, json_of, outcome


def test_rows_with_too_few_or_too_many_fields(tmp_path: Path) -> None:
    data = HEAD + LINE % b"a" + b"1,2\n\n1,2,3,4,5\n" + LINE % b"b"
    found = outcome(tmp_path / "f.csv", "users", data)
    assert found.codes == {3: ["malformed_record"], 5: ["malformed_record"]}
    assert [reject.raw for reject in found.rejects] == [b"1,2", b"1,2,3,4,5"]
    assert found.rejects[0].reasons[0].detail == "2 fields instead of 4"
    assert len(found.good) == 2


def test_an_unclosed_quote_takes_what_is_behind_it_and_nothing_before(tmp_path: Path) -> None:
    data = HEAD + LINE % b"a" + b'1,"a@x.org,N,reader\n' + LINE % b"b"
    found = outcome(tmp_path / "f.csv", "users", data)
    assert found.codes == {3: ["malformed_record"]}
    assert found.rejects[0].raw == data.removeprefix(HEAD + LINE % b"a").removesuffix(b"\n")
    assert "quote" in (found.rejects[0].reasons[0].detail or "")
    assert len(found.good) == 1


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    data = HEAD + LINE % b"a" + LINE % b"\xff" + LINE % b"b" + LINE % b"\xc3\xa9\xed\xa0\x80" + LINE % b"c"
    found = outcome(tmp_path / "f.csv", "users", data)
    assert found.codes == {3: ["invalid_encoding"], 5: ["invalid_encoding"]}
    assert found.rejects[0].raw == (LINE % b"\xff").rstrip()
    assert len(found.good) == 3


@pytest.mark.parametrize("name", ["f.csv", "f.ndjson", "f.json"])
def test_a_record_that_is_too_large_is_passed_over(tmp_path: Path, name: str) -> None:
    small, large = USER, USER | {"name": 'x"\n' + "y" * 3_000_000}
    if name == "f.csv":
        data, line = csv_of(small, large, small), 3
    else:
        records = [json_of(record).strip() for record in (small, large, small)]
        data, line = b"\n".join(records), 2
        data = b"[" + data.replace(b"\n", b",\n") + b"]" if name == "f.json" else data
    found = outcome(tmp_path / name, "users", data, max_record_bytes=1 << 20)
    assert found.codes == {line: ["record_too_large"]}
    assert 0 < len(found.rejects[0].raw) <= blocks.KEPT_OF_OVERSIZED
    assert (found.rejects[0].raw_size or 0) > 3_000_000
    assert len(found.good) == 2


def test_ndjson_of_every_wrong_kind(tmp_path: Path) -> None:
    good = json_of(USER).strip().decode()
    deep = '{"name": ' + "[" * 100_000 + "]" * 100_000 + "}"
    lines: dict[str, list[tuple[str, str | None]]] = {
        good: [],
        "null": [("malformed_record", None)],
        "[1, 2]": [("malformed_record", None)],
        '"text"': [("malformed_record", None)],
        good + " " + good: [("malformed_record", None)],
        good[:-1]: [("malformed_record", None)],
        deep: [("malformed_record", None)],
        good.replace('"name"', '"role"'): [("malformed_record", None)],
        good.replace('"Ann"', "5"): [("invalid_text", "name")],
        good.replace('"Ann"', "NaN"): [("malformed_record", None)],
        good.replace('"Ann"', '{"first": "Ann"}'): [("invalid_text", "name")],
        good.replace("true", '"true"'): [("invalid_active", "active")],
        good.replace('"Ann@Example.org"', "[]").replace("admin", "king"): [
            ("invalid_email_format", "email"),
            ("invalid_role", "role"),
        ],
        good.replace('"name"', '"nom"'): [("unknown_field", "nom"), ("missing_field", "name")],
        good.replace("Ann@", "\\ud800@"): [("malformed_record", None)],
        good.replace('"Ann"', '"A\\u0000"'): [("invalid_character", "name")],
        good.replace('"Ann"', '"A\tb"'): [("malformed_record", None)],
        good.replace('"Ann"', "1" * 5_000): [("invalid_text", "name")],
    }
    data = "".join(f"{line}\n" for line in lines).encode()
    for rows in (1_000, 3, 1):
        found = outcome(tmp_path / "f.ndjson", "users", data, rows=rows)
        told = {line: [(code, field) for code, field, _ in reasons] for line, reasons in found.fields.items()}
        assert told == {number: reasons for number, reasons in enumerate(lines.values(), 1) if reasons}
        assert len(found.good) == 1


@pytest.mark.parametrize("character", ["\n", "\r", "\r\n", "\t", "\v", "\f", "\0"])
def test_an_array_with_a_raw_control_character_in_a_string(tmp_path: Path, character: str) -> None:
    good = json_of(USER).strip().decode()
    bad = good.replace('"Ann"', f'"A{character}n"')
    for between in (",\n", ","):
        found = outcome(tmp_path / "f.json", "users", f"[{between.join((good, bad, good))}]".encode())
        assert found.codes == {2: ["malformed_record"]}
        assert found.rejects[0].raw == bad.encode()
        assert len(found.good) == 2


@pytest.mark.parametrize(("name", "space"), [("f.ndjson", "\v"), ("f.json", "\f")])
def test_what_is_no_white_space_in_json_is_no_white_space(tmp_path: Path, name: str, space: str) -> None:
    good = json_of(USER).strip().decode()
    records = [good, space + good, good + space, space]
    data = "\n".join(records) + "\n" if name == "f.ndjson" else f"[{','.join(records)}]"
    found = outcome(tmp_path / name, "users", data.encode())
    assert found.codes == {number: ["malformed_record"] for number in (2, 3, 4)}
    assert [each.raw.decode() for each in found.rejects] == records[1:]


@pytest.mark.parametrize("rows", [1, 2, 1_000])
def test_a_byte_order_mark_inside_a_file_is_a_character(tmp_path: Path, rows: int) -> None:
    """Wherever the blocks begin: Arrow takes one away from the beginning of whatever it is given."""
    head = "name,email,role\n"
    marked = ['\ufeff"Ann"', "\ufeff", "\ufeff\ufeffBob", "\ufeffCy"]
    data = head + "".join(f"{name},m{number}@x.org,reader\n" for number, name in enumerate(marked))
    found = outcome(tmp_path / "f.csv", "users", data.encode(), rows=rows)
    assert [row["name"] for row in found.good] == marked
    quoted = head + '\ufeff"Ann\nLee",b1@x.org,reader\nBob,b2@x.org,reader\n'
    found = outcome(tmp_path / "f.csv", "users", quoted.encode(), rows=rows)
    assert found.codes == {2: ["malformed_record"]}, "a quote that does not begin its field is a character as well"
    assert [row["name"] for row in found.good] == ['Lee"', "Bob"]


def test_nothing_but_bad_records(tmp_path: Path) -> None:
    found = outcome(tmp_path / "f.csv", "users", HEAD + b"x,y,,z\n" * 5_000, rows=700)
    assert len(found.rejects) == 5_000
    assert not found.good
    expected = ["invalid_uuid", "invalid_email_format", "missing_field", "invalid_role"]
    assert all(codes == expected for codes in found.codes.values())
    found = outcome(tmp_path / "f.ndjson", "users", b'{"id": 1}\n' + b"{5}\n" * 5_000, rows=700)
    assert len(found.rejects) == 5_001


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(HEAD + LINE % b"a" * 10_000)
    with LocalFile(path) as source:
        found = layout.inspect(source, resources.find("users"))
        (piece,) = ranges.cut(source, found, 1 << 30)
        reading = blocks.read(source, found, piece, Pace(10), 1 << 20)
        next(reading)
        path.write_bytes(HEAD)
        with pytest.raises(Unavailable, match="cut short"):
            list(reading)
