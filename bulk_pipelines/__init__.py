"""Bulk imports, exports, file distribution and long queues of small work on PostgreSQL, run by Dagster.

docs/architecture.md shows the house: which room holds what, and the words that are used.
"""

from importlib import import_module

COMPONENTS = ("Distribution", "Drops", "Processing", "Table", "Upkeep")
"""The Dagster components. They are imported when somebody names them: most of the program has no use for Dagster."""


def __getattr__(name: str) -> object:
    if name not in COMPONENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("bulk_pipelines.components"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *COMPONENTS])
