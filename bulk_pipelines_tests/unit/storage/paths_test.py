"""Keys, patterns over keys, and the names of unfinished files."""

import pytest

from bulk_pipelines.storage import paths
from bulk_pipelines.storage.errors import UnsafePath
from bulk_pipelines.storage.paths import Pattern


@pytest.mark.parametrize(
    "key", ["a", "a/b.csv", "..a", "a..", "a/..b/...", "ü", "a b", "-", "~", "a" * 255, "/".join(["a" * 100] * 10)]
)
def test_keys(key: str) -> None:
    assert paths.check(key) == key


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "is empty"),
        ("/a", "plain relative path"),
        ("a/", "plain relative path"),
        ("a//b", "plain relative path"),
        (".", "plain relative path"),
        ("a/..", "plain relative path"),
        ("../a", "plain relative path"),
        ("a/./b", "plain relative path"),
        ("a\0", "control character"),
        ("a\r\nDELE b", "control character"),
        ("a\x7f", "control character"),
        ("a\\..\\b", "backslash"),
        ("\udcff", "not valid Unicode"),
        ("a" * 256, "too long"),
        ("ü" * 128, "too long"),
        ("/".join(["a" * 100] * 11), "too long"),
    ],
)
def test_no_keys(key: str, why: str) -> None:
    with pytest.raises(UnsafePath, match=why) as caught:
        paths.check(key, "source")
    assert caught.value.field == "source"
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.csv", ["a.csv", "a b.csv"], ["a.csv.gz", "in/a.csv", ".csv", ".a.csv", "a.CSV"]),
        ("users_?.csv", ["users_1.csv"], ["users_.csv", "users_10.csv", "users_/.csv"]),
        ("[ab]*", ["a", "b1"], ["c", "[ab]x"]),
        ("[!ab]*", ["c"], ["a", "/", ".x"]),
        ("[a-c]", ["b"], ["d", "-"]),
        ("[]]", ["]"], ["a"]),
        ("[!]]", ["a"], ["]"]),
        ("[*]", ["*"], ["a"]),
        ("a[", ["a["], ["a"]),
        ("[&|~]", ["&", "|", "~"], ["x"]),
        ("**", ["a", "a/b/c"], [".a", "a/.b/c", "a/.c"]),
        ("**/x", ["x", "a/x", "a/b/x"], ["a/x/b", ".a/x"]),
        ("a/**/x", ["a/x", "a/b/c/x"], ["x", "b/a/x"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a"]),
        ("**/in/*.csv", ["in/1.csv", "a/in/1.csv"], ["in/a/1.csv"]),
        (".*", [".a"], ["a"]),
        ("a.b", ["a.b"], ["axb"]),
        ("ü*", ["üx"], ["ux"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [key for key in matching + others if compiled.matches(key)] == matching
    for key in matching:
        folder = key.rpartition("/")[0]
        assert compiled.reaches(folder)
        assert folder == compiled.folder or folder.startswith(compiled.folder)


@pytest.mark.parametrize("pattern", ["", "/a", "[z-a]"])
def test_no_patterns(pattern: str) -> None:
    with pytest.raises(UnsafePath):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "folder", "reached"),
    [
        ("*.csv", "a", False),
        ("a/*.csv", "a", True),
        ("a/*.csv", "b", False),
        ("a/*.csv", "a/b", False),
        ("*/b/*", "x", True),
        ("*/b/*", "x/c", False),
        ("**", "a/b", True),
        ("**", "a/.git", False),
        ("**/.git/*", "a/.git", True),
        ("a/**/b", "a/x/y", True),
        ("a/**/b", "x", False),
    ],
)
def test_folders_that_are_worth_a_look(pattern: str, folder: str, reached: bool) -> None:
    assert Pattern(pattern).reaches(folder) is reached


def test_names_of_unfinished_files() -> None:
    name = paths.unfinished("in/users.csv", "0123456789abcdef")
    assert name == "in/.users.csv.0123456789abcdef.part"
    assert paths.is_unfinished(name)
    assert paths.check(paths.unfinished("in/" + "ü" * 127, "0123456789abcdef"))
    for other in ("in/users.csv.part", ".users.part", "in/.users.0123456789abcdef", "a.part/x"):
        assert not paths.is_unfinished(other)


def test_the_folders_of_a_key() -> None:
    assert paths.folders_of("a/b/c.csv") == ["a", "a/b"]
    assert paths.folders_of("c.csv") == []
