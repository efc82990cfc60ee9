"""The seed of the day: what is drawn at random, and which of several ways a long test takes.

Every day another seed, so that all ways come around, and one run of the long tests stays short. `SEED=…` in the
environment repeats the run that printed it.
"""

import os
import random
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")

SEED = int(os.environ.get("SEED", "") or datetime.now(UTC).date().toordinal())
os.environ["SEED"] = str(SEED)  # for the workers of a parallel run, also of one that begins before midnight


def one_of(ways: Collection[T]) -> list[T]:
    """The way that it is the turn of, for pytest.mark.parametrize."""
    return [list(ways)[SEED % len(ways)]]


def chance() -> random.Random:
    return random.Random(SEED)
