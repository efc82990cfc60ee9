"""What the rules say of single records, in every format, and of every kind of broken record."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bulk_pipelines import resources
from bulk_pipelines.columns import arrow, uuids
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.land.landed_file import LocalFile
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.validate.validation import Reject, validate
from bulk_pipelines_tests.scenes.import_runs import SUBMITTED, Pace

ID = "00000000-0000-0000-0000-00000000000a"
OTHER = "00000000-0000-0000-0000-00000000000B"
USER = {"id": ID, "email": "Ann@Example.org", "name": "Ann", "role": "admin", "active": "true"}
ARTICLE = {"id": ID, "slug": "a-slug-1", "title": "T", "body": "B", "author_id": OTHER, "status": "published"}
NOTHING_TOLD = Reading()
COMMENT = {"id": ID, "article_id": ID, "user_id": OTHER, "body": "Hm"}


@dataclass(frozen=True)
class Outcome:
    good: list[dict[str, Any]]
    rejects: list[Reject]

    @property
    def codes(self) -> dict[int, list[str]]:
        return {each.line: [reason.code for reason in each.reasons] for each in self.rejects}

    @property
    def fields(self) -> dict[int, list[tuple[str, str | None, str | None]]]:
        return {each.line: [(why.code, why.field, why.value) for why in each.reasons] for each in self.rejects}


def outcome(
    path: Path,
    resource: str,
    data: bytes,
    *,
    rows: int = 1_000,
    max_record_bytes: int = 1 << 20,
    range_bytes: int = 1 << 30,
    reading: Reading = NOTHING_TOLD,
) -> Outcome:
    path.write_bytes(data)
    declared = resources.find(resource)
    context = ImportContext(
        1, declared, Mode.INSERT, hashlib.sha256(data).digest(), SUBMITTED, max_record_bytes=max_record_bytes
    )
    good, rejects = [], []
    with LocalFile(path) as source:
        found = layout.inspect(source, declared, reading=reading)
        for piece in ranges.cut(source, found, range_bytes):
            for block in blocks.read(source, found, piece, Pace(rows), max_record_bytes):
                validated = validate(context, found, block)
                names = validated.good.column_names
                columns = {name: arrow.column(validated.good, name) for name in names}
                texts = {n: uuids.to_text(c) if c.type == uuids.BINARY else c for n, c in columns.items()}
                lists = {name: column.to_pylist() for name, column in texts.items()}
                good += [dict(zip(names, row, strict=True)) for row in zip(*lists.values(), strict=True)]
                rejects += validated.rejects
    return Outcome(good, rejects)


@pytest.mark.parametrize("range_bytes", [1 << 30, 60])
@pytest.mark.parametrize("rows", [1_000, 1])
def test_a_newline_that_is_escaped_ends_no_record(tmp_path: Path, rows: int, range_bytes: int) -> None:
    header = b"email,name,role\n"
    plain, escaped = b"a@b.org,Ann,admin\n", b"a@b.org,An\\\nn,admin\n"
    bad, quoted = b"a@b.org,Ann,king\n", b'"a@b.org",An\\\nn,admin\n'
    for records in ([plain, escaped, escaped, bad, plain], [quoted, quoted, bad, quoted], [quoted, bad, plain]):
        found = outcome(
            tmp_path / "file",
            "users",
            header + b"".join(records),
            rows=rows,
            range_bytes=range_bytes,
            reading=Reading(escape="\\"),
        )
        line = 2 + sum(each.count(b"\n") for each in records[: records.index(bad)])
        assert found.codes == {line: ["invalid_role"]}
        assert [row["name"] for row in found.good] == [
            "Ann" if each is plain else "An\nn" for each in records if each is not bad
        ]


def csv_of(*rows: dict[str, str]) -> bytes:
    """One record with the columns of the first; every field in quotes, unless it is empty."""
    names = list(rows[0])
    lines = [",".join(names)] + [
        ",".join('"' + row[name].replace('"', '""') + '"' if row[name] else "" for name in names) for row in rows
    ]
    return "\n".join(lines).encode() + b"\n"


def json_of(row: dict[str, Any]) -> bytes:
    return json.dumps(row | ({"active": row["active"] == "true"} if "active" in row else {})).encode() + b"\n"


GOOD = {"users": USER, "articles": ARTICLE, "comments": COMMENT}


@pytest.mark.parametrize("resource", GOOD)
def test_the_same_record_in_every_format(tmp_path: Path, resource: str) -> None:
    record = GOOD[resource]
    found = [
        outcome(tmp_path / name, resource, data)
        for name, data in {
            "f.csv": csv_of(record),
            "f.ndjson": json_of(record),
            "f.json": b"[" + json_of(record) + b"]",
        }.items()
    ]
    assert found[0] == found[1] == found[2]
    assert not found[0].rejects
    assert found[0].good[0]["id"] == ID


def test_values_take_their_canonical_form(tmp_path: Path) -> None:
    user = USER | {"id": OTHER, "active": "F", "created_at": "2026-01-10 13:00:00.5+01"}
    (found,) = outcome(tmp_path / "f.csv", "users", csv_of(user)).good
    assert found["id"] == OTHER.lower()
    assert found["active"] is False
    assert found["created_at"].isoformat() == "2026-01-10T12:00:00.500000+00:00"
    assert found["updated_at"] == SUBMITTED
    assert found["email"] == "Ann@Example.org"


def test_a_missing_id_is_made_of_the_file_and_the_line(tmp_path: Path) -> None:
    data = b"email,name,role\na@x.org,A,reader\nb@x.org,B,reader\n"
    first = outcome(tmp_path / "f.csv", "users", data).good
    again = outcome(tmp_path / "g.csv", "users", data, rows=1).good
    other = outcome(tmp_path / "h.csv", "users", data + b"c@x.org,C,reader\n").good
    assert [row["id"] for row in first] == [row["id"] for row in again]
    assert len({row["id"] for row in first + other}) == 5


CASES: list[tuple[str, dict[str, str], list[str]]] = [
    ("users", {"id": "a"}, ["invalid_uuid"]),
    ("users", {"id": ID.replace("-", "_")}, ["invalid_uuid"]),
    ("users", {"id": ID.replace("a", "g")}, ["invalid_uuid"]),
    ("users", {"email": ""}, ["missing_field"]),
    ("users", {"email": " \t"}, ["missing_field"]),
    ("users", {"email": "ann"}, ["invalid_email_format"]),
    ("users", {"email": "ann@host"}, ["invalid_email_format"]),
    ("users", {"email": "ann@x..org"}, ["invalid_email_format"]),
    ("users", {"email": "ann@x.org "}, ["invalid_email_format"]),
    ("users", {"email": "ann@x.org\n"}, ["invalid_email_format"]),
    ("users", {"email": "änn@x.org"}, ["invalid_email_format"]),
    ("users", {"email": f"{'a' * 250}@x.org"}, ["too_long"]),
    ("users", {"name": ""}, ["missing_field"]),
    ("users", {"name": "\u2003"}, ["missing_field"]),
    ("users", {"name": "é" * 201}, ["too_long"]),
    ("users", {"name": "\0"}, ["invalid_character"]),
    ("users", {"role": "king"}, ["invalid_role"]),
    ("users", {"role": "Admin"}, ["invalid_role"]),
    ("users", {"role": ""}, ["missing_field"]),
    ("users", {"active": "yes"}, ["invalid_active"]),
    ("users", {"created_at": "2026-02-29"}, ["invalid_timestamp"]),
    ("users", {"created_at": "2026-01-01T25:00:00Z"}, ["invalid_timestamp"]),
    ("users", {"created_at": "yesterday"}, ["invalid_timestamp"]),
    ("users", {"created_at": "0001-01-01T00:00:00+10:00"}, ["invalid_timestamp"]),
    (
        "users",
        {"email": "ann", "role": "king", "active": "x"},
        ["invalid_email_format", "invalid_role", "invalid_active"],
    ),
    ("articles", {"slug": "A-slug"}, ["invalid_slug_format"]),
    ("articles", {"slug": "a--slug"}, ["invalid_slug_format"]),
    ("articles", {"slug": "-"}, ["invalid_slug_format"]),
    ("articles", {"slug": "a" * 201}, ["too_long"]),
    ("articles", {"title": ""}, ["missing_field"]),
    ("articles", {"body": ""}, ["missing_field"]),
    ("articles", {"author_id": ""}, ["missing_field"]),
    ("articles", {"author_id": "7"}, ["invalid_uuid"]),
    ("articles", {"status": "gone"}, ["invalid_status"]),
    ("articles", {"status": "draft", "published_at": "2026-01-01"}, ["draft_with_published_at"]),
    ("articles", {"tags": "one,two"}, ["invalid_tags"]),
    ("articles", {"tags": '["one", 2]'}, ["invalid_tags"]),
    ("articles", {"tags": '["one", null]'}, ["invalid_tags"]),
    ("articles", {"tags": '["\\ud800"]'}, ["invalid_tags"]),
    ("articles", {"tags": '["\\u0000"]'}, ["invalid_character"]),
    ("comments", {"body": " \n "}, ["missing_field"]),
    ("comments", {"body": "word " * 501}, ["body_too_long"]),
    ("comments", {"article_id": "x", "user_id": ""}, ["invalid_uuid", "missing_field"]),
]


@pytest.mark.parametrize(("resource", "change", "codes"), CASES)
def test_a_broken_rule_names_field_and_value(
    tmp_path: Path, resource: str, change: dict[str, str], codes: list[str]
) -> None:
    record = GOOD[resource] | dict.fromkeys(change, "") | change
    neighbour = dict.fromkeys(record, "") | GOOD[resource]
    found = outcome(tmp_path / "f.csv", resource, csv_of(neighbour, record, neighbour))
    assert found.codes[3] == codes
    assert len(found.good) == 2
    ((*reasons,),) = found.fields.values()
    assert {field for _, field, _ in reasons} == set(change) - {"status"} or {"status"} == set(change)


@pytest.mark.parametrize(
    ("resource", "change"),
    [
        ("users", {"email": "o'neil+tag@mail.example.co"}),
        ("users", {"name": 'comma, "quote"\nand newline'}),
        ("users", {"name": "é" * 200}),
        ("users", {"active": "", "created_at": "2024-02-29"}),
        ("articles", {"tags": '["a \\"b\\"", "é,"]', "description": ""}),
        ("articles", {"status": "draft", "published_at": ""}),
        ("articles", {"tags": "", "published_at": "2026-01-01"}),
        ("comments", {"body": "word " * 500}),
    ],
)
def test_what_is_allowed(tmp_path: Path, resource: str, change: dict[str, str]) -> None:
    found = outcome(tmp_path / "f.csv", resource, csv_of(GOOD[resource] | change))
    assert found.codes == {}
    assert len(found.good) == 1


def test_in_csv_an_empty_field_is_nothing_and_a_quoted_one_is_empty_text(tmp_path: Path) -> None:
    head = "slug,title,body,author_id,status,description"
    rows = [f"{slug},T,B,{ID},draft,{text}" for slug, text in (("a", ""), ("b", '""'))]
    found = outcome(tmp_path / "f.csv", "articles", "\n".join([head, *rows]).encode())
    assert [row["description"] for row in found.good] == [None, ""]


HEAD = b"id,email,name,role\n"
LINE = b"%s,%%s@x.org,N,reader\n" % ID.encode()


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


def test_long_values_are_shown_short_and_kept_whole(tmp_path: Path) -> None:
    found = outcome(tmp_path / "f.csv", "users", csv_of(USER | {"name": "x" * 9_000}))
    ((reason,),) = [each.reasons for each in found.rejects]
    assert reason.value is not None
    assert len(reason.value) < 300
    assert b"x" * 9_000 in found.rejects[0].raw
