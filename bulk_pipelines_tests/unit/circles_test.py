"""No modules import each other in a circle: with one, whether a program starts depends on what it imports first."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from bulk_pipelines.settings.places import PACKAGE


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module imports when it is imported itself: not those of its functions, nor those for types
    alone."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif isinstance(node, ast.If | ast.Try | ast.With):
            waiting += [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]


def check(package: Path) -> None:
    paths = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }
    known: dict[str, set[str]] = {}
    for name, path in paths.items():
        wanted = imports(ast.parse(path.read_text()))
        known[name] = {each if each in paths else each.rpartition(".")[0] for each in wanted} & paths.keys() - {name}
    TopologicalSorter(known).prepare()


def test_no_circle() -> None:
    check(PACKAGE)


def test_a_circle_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "house"
    (package / "rooms").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "rooms" / "__init__.py").touch()
    (package / "door.py").write_text("from house.rooms import kitchen\n")
    (package / "rooms" / "kitchen.py").write_text("def cook():\n    from house.door import bell\n")
    check(package)
    (package / "rooms" / "kitchen.py").write_text("from house.door import bell\n")
    with pytest.raises(CycleError):
        check(package)
