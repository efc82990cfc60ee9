"""docs/architecture.md and the docstrings of packages name only what exists, and every room stands on the page."""

import ast
import re
from pathlib import Path

import pytest

from bulk_pipelines.settings import CHECKOUT

PACKAGE = CHECKOUT / "bulk_pipelines"
PAGE = (CHECKOUT / "docs" / "architecture.md").read_text()
PLACES = sorted(set(re.findall(r"`([a-z0-9_/]+/[a-z0-9_]+\.py)(?::([A-Za-z_]+))?`", PAGE)))
PACKAGES = [path.parent for path in sorted(PACKAGE.rglob("__init__.py"))]
ROOMS = set(re.findall(r"^\| `([a-z]+)\.py`", PAGE, re.MULTILINE))
"""The rooms that the page explains for all slices."""


def names_in(path: Path) -> set[str]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_what_the_page_names_exists(file: str, name: str) -> None:
    assert (PACKAGE / file).is_file(), file
    assert not name or name in names_in(PACKAGE / file), f"{file} has no {name}"


def test_the_page_shows_every_room() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert {room for room in rooms if f"`{room}/`" not in PAGE} == set()


@pytest.mark.parametrize("kind", sorted(PACKAGE.glob("*/kind.py")), ids=lambda path: path.parent.name)
def test_a_slice_with_a_kind_of_job_has_the_same_rooms(kind: Path) -> None:
    rooms = {"request", "submission", "kind", "work", "completion", "report", "definitions", "commands"}
    assert rooms - {path.stem for path in kind.parent.iterdir()} == set()


def test_every_module_named_definitions_has_definitions_for_dagster() -> None:
    for path in PACKAGE.rglob("definitions.py"):
        assert "dg.Definitions" in path.read_text(), path


@pytest.mark.parametrize("package", [pytest.param(each, id=str(each.relative_to(CHECKOUT))) for each in PACKAGES])
def test_a_package_says_what_it_is_and_names_only_what_it_has(package: Path) -> None:
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    assert said, f"{package.name} says nothing of itself"
    known = {path.stem for path in [*package.iterdir(), *PACKAGE.iterdir()]}
    for name in re.findall(r"`([a-z_][a-z0-9_.]*)`", said):
        assert name.split(".")[0] in known, f"the docstring of {package.name} names {name}"


@pytest.mark.parametrize("package", [pytest.param(each, id=str(each.relative_to(PACKAGE))) for each in PACKAGES[1:]])
def test_a_package_leads_through_its_modules(package: Path) -> None:
    """A package names its modules, except for the rooms that have the same name in every slice. If its modules are all
    alike, it says in their place what there is "a module for each" of."""
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }
    named = set(re.findall(r"`([a-z_0-9]+)`", said))
    if "a module for each" not in " ".join(said.split()):
        assert modules - named - ROOMS - {"__init__"} == set(), f"the docstring of {package.name} leaves them out"


def words_of(page: str) -> list[str]:
    return re.findall(r"^\| ([a-z][^|]*?) \|", page, re.MULTILINE)


WORDS = words_of(PAGE.split("## The words")[1])[1:]


def test_no_word_is_explained_twice() -> None:
    assert sorted(set(WORDS), key=str.lower) == WORDS


def test_the_first_page_explains_words_of_the_glossary() -> None:
    first = (CHECKOUT / "docs" / "index.md").read_text().split("These words")[1].split("[All other words]")[0]
    told = words_of(first)[1:]
    assert told
    assert set(told) <= set(WORDS)
