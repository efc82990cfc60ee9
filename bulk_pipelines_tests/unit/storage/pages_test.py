"""What a page of a listing takes, and what it leaves out."""

from datetime import UTC, datetime

import pytest

from bulk_pipelines.storage import contract
from bulk_pipelines.storage.contract import Entry, LeftOut, Page

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("size", [-1, 1 << 63, 10**30])
def test_a_size_that_no_file_has_is_left_out(size: int) -> None:
    """A database could not hold it, and the whole look would fail."""
    page = Page()
    for each in (0, size, (1 << 63) - 1):
        page.add(Entry("a.csv", each, NOW, "1"))
    assert [entry.size for entry in page.entries] == [0, (1 << 63) - 1]
    assert [str(each) for each in page.left_out] == ["'a.csv' has a size that no file has"]


@pytest.mark.parametrize("name", ["a//b", "a\x00b", "\x1b[31mred", "\udcff", "a\\b", "\u2028", "x" * 5_000])
def test_a_name_is_shown_escaped_and_never_too_long(name: str) -> None:
    shown = str(LeftOut(name, "is odd"))
    assert shown.isprintable()
    assert shown.endswith(" is odd")
    assert len(shown) < 1_100


def test_a_page_is_full_of_what_it_took_and_what_it_left_out() -> None:
    page = Page()
    for number in range(contract.PAGE):
        assert not page.full
        page.add(Entry(f"{'/' * (number % 2)}{number}", 1, NOW, "1"))
    assert page.full
