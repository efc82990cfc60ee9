"""Few jobs from many files, in the order in which resources need each other."""

from hypothesis import given
from hypothesis import strategies as st

from bulk_pipelines.drops.grouping import Limits, grouped, needed_by, needed_order, parts
from bulk_pipelines.drops.ledger import Ready
from bulk_pipelines.drops.sources import DropSource, Rule

REFERENCES = {"comments": ["articles", "users"], "articles": ["users"], "users": []}
SOURCE = DropSource(
    "s",
    "/x",
    (Rule("c*", "comments"), Rule("a*", "articles"), Rule("u*.up", "users", mode="upsert"), Rule("u*", "users")),
    max_files=2,
)


def ready(number: int, path: str, size: int = 10) -> Ready:
    return Ready(number, path, "v", size, "", [])


def test_resources_come_after_what_they_refer_to() -> None:
    files = [ready(n, path) for n, path in enumerate(["c1", "a1", "u1", "u2", "u3", "u4.up"])]
    groups = grouped(SOURCE, files, needed_order(REFERENCES))
    assert [(group.rule.resource, [file.path for file in group.files]) for group in groups] == [
        ("users", ["u1", "u2"]),
        ("users", ["u3"]),
        ("users", ["u4.up"]),
        ("articles", ["a1"]),
        ("comments", ["c1"]),
    ]


def test_what_a_resource_needs() -> None:
    assert needed_by("comments", REFERENCES) == {"articles", "users"}
    assert needed_by("users", REFERENCES) == set()


@given(st.lists(st.integers(0, 100), max_size=50), st.integers(1, 10), st.integers(1, 200))
def test_parts_keep_every_file_in_order_and_the_limits(sizes: list[int], max_files: int, max_bytes: int) -> None:
    files = [ready(n, str(n), size) for n, size in enumerate(sizes)]
    found = parts(files, Limits(max_files, max_bytes))
    assert [file for part in found for file in part] == files
    for part in found:
        assert 1 <= len(part) <= max_files
        assert len(part) == 1 or sum(file.size for file in part) <= max_bytes
