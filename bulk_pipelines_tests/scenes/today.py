"""The seed of the day. It decides what is drawn at random, and which of several ways a long test takes.

Every day has another seed, so that all ways come around while one run of the long tests stays short. `SEED=…` in the
environment repeats the run that printed it.
"""

import os
import random
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")

FEW = 10
"""How many examples a property draws while somebody types."""

SEED = int(os.environ.get("SEED", "") or datetime.now(UTC).date().toordinal())
os.environ["SEED"] = str(SEED)  # all workers of a parallel run take this one, even if midnight passes


def one_of(ways: Collection[T]) -> list[T]:
    """Return a list of the one way whose turn it is today, for pytest.mark.parametrize."""
    return [list(ways)[SEED % len(ways)]]


def examples(most: int) -> int:
    """Return how many examples a property draws: so many, or a few while somebody types."""
    return min(most, FEW) if os.environ.get("HYPOTHESIS_PROFILE") == "quick" else most


def chance() -> random.Random:
    return random.Random(SEED)
