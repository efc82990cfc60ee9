"""The file that names the sources: what it may say, and what is said of a mistake in it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulk_pipelines.drops import sources
from bulk_pipelines.drops.sources import After
from bulk_pipelines.errors import BulkError, InvalidInput, Unavailable
from bulk_pipelines.imports.request import ErrorPolicy

RESOURCES = ("users", "articles", "comments")

GOOD = """
[[source]]
name = "partner"
where = "s3://incoming/daily"
after = "move"
failed_folder = "failed"
marker = ".done"

[[source.files]]
glob = "users_*.csv"
resource = "users"
mode = "upsert"

[[source.files]]
glob = "**/*.ndjson"
resource = "comments"
"""


def load(tmp_path: Path, text: str) -> list[sources.DropSource]:
    path = tmp_path / "drops.toml"
    path.write_text(text)
    return sources.load(path, RESOURCES, tmp_path / "inbox")


def test_a_source_with_its_rules(tmp_path: Path) -> None:
    (source,) = load(tmp_path, GOOD)
    assert (source.name, source.scheme, source.after, source.marker) == ("partner", "s3", After.MOVE, ".done")
    users = source.rule_for("users_2026.csv")
    assert users is not None
    assert (users.resource, users.mode) == ("users", "upsert")
    comments = source.rule_for("a/b/c.ndjson")
    assert comments is not None
    assert comments.resource == "comments"
    assert source.rule_for("unknown.txt") is None


def test_without_the_file_there_is_an_inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = sources.load(tmp_path / "drops.toml", RESOURCES, tmp_path / "inbox")
    assert (tmp_path / "inbox").is_dir()
    assert source.where == str(tmp_path / "inbox")
    rule = source.rule_for("articles_today.csv.gz")
    assert rule is not None
    assert rule.resource == "articles"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[source", "is not TOML"),
        ("other = 1", "something else than"),
        ("[[source]]\nwhere = '/x'", "source 1: name is missing"),
        ("[[source]]\nname = 'a'", "source 1: where is missing"),
        ("[[source]]\nname = 'a'\nwhere = '/x'", "no \\[\\[source.files"),
        (GOOD.replace('"move"', '"burn"'), "after: 'burn' is none of leave, move, delete"),
        (GOOD.replace("users_*.csv", "/etc/*"), "not a relative pattern"),
        (GOOD.replace('"comments"', '"stones"'), "'stones' is not a resource"),
        (GOOD.replace('"upsert"', '"merge"'), "neither insert nor upsert"),
        (GOOD.replace('mode = "upsert"', 'table = "shop.x"'), "a rule names one of resource, table, recipe"),
        (GOOD.replace('resource = "comments"', 'match_on = "id"'), "a rule names one of resource, table, recipe"),
        (GOOD.replace('"comments"', '"comments"\nmatch_on = "id"'), "match_on: only an upsert matches"),
        (GOOD.replace('"upsert"', '"upsert"\nmatch_on = 3'), "files: match_on: 3 is not a text"),
        (GOOD.replace("marker", "marks"), "'marks' is not known"),
        (GOOD.replace("s3://", "gopher://"), "gopher"),
        (GOOD + GOOD, "two sources are named 'partner'"),
        (GOOD.replace('marker = ".done"', 'settle_seconds = "2"'), "source 1: settle_seconds: '2' is not a number"),
        (GOOD.replace('marker = ".done"', "max_files = true"), "source 1: max_files: True is not a whole number"),
        (GOOD.replace('".done"', "3"), "source 1: marker: 3 is not a text"),
        (GOOD.replace('".done"', '""'), "marker and failed_folder must not be empty"),
        (GOOD.replace('"failed"', '"failed/"'), "failed_folder: 'failed/' is not a plain relative path"),
        (GOOD.replace('marker = ".done"', 'done_folder = "../done"'), "done_folder: '../done' is not a plain relative"),
        (GOOD.replace('"users_*.csv"', "3"), "source 'partner': files: glob: 3 is not a text"),
        (GOOD.replace('marker = ".done"', "stalled_seconds = -1"), "must be positive"),
        ("[[source]]\nname = 'a'\nwhere = '/x'\nfiles = 3", "files: not \\[\\[source.files\\]\\] tables"),
        ("source = [1]", "holds something else than"),
        (GOOD.replace('"upsert"', '"upsert"\nformat = "cvs"'), "format 'cvs' is none of csv, ndjson, json"),
        (GOOD.replace('"upsert"', '"upsert"\non_error = "5 %"'), "on_error '5 %' is none of continue, abort, a number"),
        (GOOD.replace("s3://incoming/daily", "https://example.org/x"), "is a web address: it has no files to look for"),
        (GOOD.replace("s3://incoming/daily", "s3://incoming//daily"), "where: '/daily' is not a plain relative path"),
        (GOOD.replace("s3://incoming/daily", "ftp://host/a/../b"), "where: 'a/../b' is not a plain relative path"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BulkError, match=message) as caught:
        load(tmp_path, text)
    assert isinstance(caught.value, InvalidInput)


def test_a_file_that_is_named_and_missing_is_told(tmp_path: Path) -> None:
    """If it were not told, the sources of the file would be forgotten, and the inbox be looked at in their place."""
    with pytest.raises(InvalidInput, match=r"BULK_DROPS_FILE: .*/dorps.toml cannot be read: No such file"):
        sources.load(tmp_path / "dorps.toml", RESOURCES, tmp_path / "inbox")
    assert not (tmp_path / "inbox").exists()


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        sources.load(tmp_path, RESOURCES, tmp_path / "inbox")


def test_the_inbox_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").write_text("a file")
    with pytest.raises(Unavailable, match=r"inbox cannot be used \(Not a directory\): .*BULK_HOME"):
        sources.load(tmp_path / "drops.toml", RESOURCES, tmp_path / "home" / "inbox")


def test_a_rule_says_how_files_are_read(tmp_path: Path) -> None:
    rule = '[[source]]\nname = "a"\nwhere = "/in"\n[[source.files]]\nglob = "*"\nresource = "users"\n'
    told = 'delimiter = "semicolon"\ncompression = "xz"\nmap = {email = "E-Mail"}\nnulls = ["-"]\nignore_extra = true\n'
    (found,) = load(tmp_path, rule + told)
    reading = found.rules[0].reading
    assert (reading.delimiter, reading.map, reading.nulls) == (";", (("email", "E-Mail"),), ("-",))
    assert (reading.ignore_extra, found.rules[0].options["compression"]) == (True, "xz")
    for wrong in ('delimiter = "ab"', 'encoding = "x"', 'dates = {a = "DD"}', 'format = "xml"', "skip_lines = -1"):
        with pytest.raises(InvalidInput, match=wrong.split(" ", maxsplit=1)[0]):
            load(tmp_path, rule + wrong)


WORDS = ["continue", "abort", "Abort", "", " 5%", "1e3", "5%%", "-1", "100%", "101%"]


@given(st.one_of(st.from_regex(r"\A\d{0,4}%?\Z"), st.sampled_from(WORDS)))
def test_a_rule_takes_the_limits_that_imports_take(text: str) -> None:
    try:
        ErrorPolicy.parse(text)
    except InvalidInput:
        assert not sources.is_limit(text)
    else:
        assert sources.is_limit(text)
