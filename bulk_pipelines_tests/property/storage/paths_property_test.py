"""Whatever a key, a pattern or an address holds: nothing leaves its folder, and nothing secret is shown."""

import fnmatch
import os.path
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import addresses, paths
from bulk_pipelines.storage.errors import UnsafePath
from bulk_pipelines.storage.local import beneath
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines.storage.paths import Pattern

TRICKY = st.sampled_from(
    ["..", ".", "/", "\\", "\0", "a", "ü", "~", "%2e%2e", "\n", " ", "C:", "\ud800", "*", "[", "]", "!"]
)
ANY_TEXT = st.one_of(st.text(), st.lists(TRICKY, max_size=8).map("".join), st.lists(TRICKY, max_size=8).map("/".join))
SEGMENT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="/\\"), min_size=1, max_size=8
)
KEY = st.lists(SEGMENT.filter(lambda text: text not in {".", ".."}), min_size=1, max_size=4).map("/".join)


@given(ANY_TEXT)
def test_a_key_stays_below_every_root(text: str) -> None:
    try:
        key = paths.check(text)
    except UnsafePath as error:
        assert str(error).isprintable()  # noqa: PT017
        return
    for root in ("/root", "/root/deeper"):
        whole = os.path.normpath(f"{root}/{key}")
        assert whole == f"{root}/{key}"
    assert LocalStorage(Path("/root")).url_of(key) == f"/root/{key}"
    assert beneath.within(Path("/no/root"), key, follow=True) == tuple(key.split("/"))


@given(KEY)
def test_what_is_plain_is_a_key(key: str) -> None:
    assert paths.check(key) == key


@given(KEY, KEY)
def test_an_escaped_key_matches_itself_alone(key: str, other: str) -> None:
    assume(key != other)
    pattern = Pattern(paths.escape(key))
    assert pattern.matches(key)
    assert not pattern.matches(other)


@given(KEY, st.text("0123456789abcdef", min_size=16, max_size=16))
def test_an_unfinished_name_lies_beside_and_is_known(key: str, token: str) -> None:
    name = paths.unfinished(key, token)
    assert paths.check(name)
    assert paths.is_unfinished(name)
    assert name.rpartition("/")[0] == key.rpartition("/")[0]
    assert not Pattern("**").matches(name)


PATTERN = st.lists(st.sampled_from(["*", "?", "a", "b", "[ab]", "[!a]", ".", "-"]), min_size=1, max_size=5).map("".join)
NAME = st.text("ab.-", min_size=1, max_size=5).filter(lambda text: text not in {".", ".."})


@given(PATTERN, NAME)
@example("[!a]*", ".b")
def test_one_part_matches_as_pythons_own_fnmatch(pattern: str, name: str) -> None:
    hidden = name.startswith(".") and not pattern.startswith(".")
    assert Pattern(pattern).matches(name) == (fnmatch.fnmatchcase(name, pattern) and not hidden)


@given(st.lists(st.one_of(PATTERN, st.just("**")), min_size=1, max_size=4), st.lists(NAME, min_size=1, max_size=5))
def test_what_matches_lies_in_folders_that_are_reached(parts: list[str], names: list[str]) -> None:
    pattern, key = Pattern("/".join(parts)), "/".join(names)
    if pattern.matches(key):
        assert key.startswith(pattern.folder)
        for depth in range(len(names)):
            assert pattern.reaches("/".join(names[:depth]))


@given(st.lists(st.one_of(PATTERN, st.just("**")), min_size=1, max_size=4), st.lists(NAME, min_size=1, max_size=5))
def test_two_stars_stand_for_any_number_of_parts(parts: list[str], names: list[str]) -> None:
    """The pattern matches what a plain recursive reading of the rule matches."""

    def matches(parts: list[str], names: list[str]) -> bool:
        if not parts:
            return not names
        if parts == ["**"]:
            return bool(names) and not any(name.startswith(".") for name in names)
        if parts[0] == "**":
            skips = bool(names) and not names[0].startswith(".") and matches(parts, names[1:])
            return matches(parts[1:], names) or skips
        return bool(names) and Pattern(parts[0]).matches(names[0]) and matches(parts[1:], names[1:])

    assert Pattern("/".join(parts)).matches("/".join(names)) == matches(parts, names)


@given(
    st.sampled_from(["ftp", "ftps", "ftpes", "sftp", "http", "https"]),
    st.text("a:/@?#%[]. \\", max_size=6),
    st.text("a:/@?#%[]. \\", max_size=6),
    st.text("a:/@?#%[]. \\", max_size=8),
)
def test_a_password_is_never_shown(scheme: str, before: str, after: str, path: str) -> None:
    """The address may be badly quoted; the word stands for any part of the password."""
    url = f"{scheme}://me:{before}S3CRET{after}@host/{path}"
    shown = addresses.redacted(url)
    assert "S3CRET" not in shown
    try:
        address = addresses.parse(url)
    except InvalidInput as error:
        assert "S3CRET" not in str(error)  # noqa: PT017
    else:
        assert "S3CRET" not in address.server or pytest.fail(address.server)


@given(KEY)
def test_a_local_address_leads_back(key: str) -> None:
    url = LocalStorage(Path("/root")).url_of(key)
    assert addresses.parse(url).path == f"/root/{key}"
