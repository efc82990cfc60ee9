"""What the package imports is what it asks for, so that a wheel brings all it needs."""

import ast
import re
import sys
from importlib import metadata

from bulk_pipelines.settings.places import PACKAGE

ELSEWHERE = {"bulk_pipelines", "compression"}
"""Our own package, and what Python has from 3.14 on."""


EXTRAS = {"opentelemetry": "otel"}
"""Modules that come with an extra, and are imported where somebody wants what it is for."""


def imported() -> set[str]:
    """Return the names of the top-level modules that the package imports, anywhere in its code."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - ELSEWHERE


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(extra: str = "") -> set[str]:
    """Return what is asked for always, or by an extra."""
    required = [
        each
        for each in metadata.requires("bulk-pipelines") or []
        if (f"extra == '{extra}'" in each.replace('"', "'") if extra else "extra ==" not in each)
    ]
    return {plain(re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each in required}


def test_what_is_imported_is_asked_for() -> None:
    distributions = metadata.packages_distributions()
    for module in sorted(imported()):
        sources = {plain(each) for each in distributions.get(module, [])}
        assert sources & asked_for(EXTRAS.get(module, "")), (
            f"{module} comes from {sources or 'nowhere'}: add it to the dependencies"
        )
