"""The tree of errors at the head of `errors.py` is the one that the code has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import bulk_pipelines
from bulk_pipelines import errors

LINE = re.compile(r"^( *)([A-Z][A-Za-z]+)  +(\S.*)$", re.MULTILINE)


def drawn() -> set[tuple[str, str]]:
    """Return each error of the drawing, and the one that it stands below."""
    assert errors.__doc__ is not None
    found: set[tuple[str, str]] = set()
    above: list[str] = []
    for indent, name, _ in LINE.findall("BulkError  the root\n" + errors.__doc__.split("BulkError\n", 1)[1]):
        above[len(indent) // 2 :] = [name]
        found.add((name, above[-2] if len(above) > 1 else ""))
    return found


def classes() -> Iterator[tuple[str, str]]:
    """Yield each class of the package with each of its base classes."""
    for path in Path(*bulk_pipelines.__path__).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield from ((node.name, ast.unparse(base).rpartition(".")[2]) for base in node.bases)


def declared() -> set[tuple[str, str]]:
    pairs = set(classes())
    found = {"BulkError"}
    while more := {name for name, base in pairs if base in found} - found:
        found |= more
    return {(name, base) for name, base in pairs if base in found}


def test_the_drawing_is_the_code() -> None:
    assert drawn() == {*declared(), ("BulkError", ""), ("LeaseLost", "")}
