"""The tree of errors at the head of `errors.py` is the one that the code has."""

import re
from collections.abc import Iterator

from bulk_pipelines import errors
from bulk_pipelines.engine import errors as of_jobs
from bulk_pipelines.storage import errors as of_storages

LINE = re.compile(r"^( *)([A-Z][A-Za-z]+)  +(\S.*)$", re.MULTILINE)


def drawn() -> set[tuple[str, str]]:
    """Each error of the drawing, and the one that it stands below."""
    assert errors.__doc__ is not None
    found: set[tuple[str, str]] = set()
    above: list[str] = []
    for indent, name, _ in LINE.findall("BulkError  the root\n" + errors.__doc__.split("BulkError\n", 1)[1]):
        above[len(indent) // 2 :] = [name]
        found.add((name, above[-2] if len(above) > 1 else ""))
    return found


def declared(root: type[Exception]) -> Iterator[tuple[str, str]]:
    for each in root.__subclasses__():
        if each.__module__ in (errors.__name__, of_jobs.__name__, of_storages.__name__):
            yield each.__name__, root.__name__
            yield from declared(each)


def test_the_drawing_is_the_code() -> None:
    assert drawn() == {*declared(errors.BulkError), ("BulkError", ""), ("LeaseLost", "")}
