"""What the rules say of single records, in every format."""

from pathlib import Path

import pytest

from bulk_pipelines.formats.reading import Reading
from bulk_pipelines_tests.scenes.import_runs import SUBMITTED
from bulk_pipelines_tests.scenes.validated import ARTICLE, COMMENT, ID, OTHER, USER, csv_of, json_of, outcome


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


def test_long_values_are_shown_short_and_kept_whole(tmp_path: Path) -> None:
    found = outcome(tmp_path / "f.csv", "users", csv_of(USER | {"name": "x" * 9_000}))
    ((reason,),) = [each.reasons for each in found.rejects]
    assert reason.value is not None
    assert len(reason.value) < 300
    assert b"x" * 9_000 in found.rejects[0].raw
