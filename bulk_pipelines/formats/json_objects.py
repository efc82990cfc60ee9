"""What Python's parser of JSON takes and we refuse: a name that an object has twice, and constants that are no JSON."""

from collections import Counter
from typing import Any


class Doubled(ValueError):
    """An object has a name twice."""


def pairs_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        doubled = next(name for name, count in counts.items() if count > 1)
        raise Doubled(f"the name {doubled!r} is given twice")
    return found


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
