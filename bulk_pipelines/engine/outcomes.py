"""Outcomes: what came of working an item. Handlers return one of these, and retry.decide turns it into a settlement.

Handlers are other people's code, so whatever they say of a delay, a reason or a class of errors is put into its proper
form here, where it comes in. What a result holds is checked when it is written, see items/settling.py.
"""

import math
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

from bulk_pipelines.errors import ErrorClass

MESSAGE_LIMIT = 2_000


def seconds(said: object) -> float | None:
    """Return a delay in seconds; it may be given as any number, as the text of one, or as a timedelta. None when that
    gives no delay."""
    if isinstance(said, bool):
        return None
    try:
        if isinstance(said, timedelta):
            return said.total_seconds()
        found = float(said) if isinstance(said, Real | Decimal | str) else None
    except OverflowError:
        return math.inf if said > 0 else -math.inf  # type: ignore[operator]
    except Exception:  # noqa: BLE001 - a number of somebody's own, or a text that is none
        return None
    return None if found is None or math.isnan(found) else found


def text(said: object) -> str:
    """Return the object's own words, whatever it is."""
    try:
        return str.__str__(said if isinstance(said, str) else str(said)) or "no reason was given"
    except Exception:  # noqa: BLE001 - the object's own code, and its error says as much
        return f"a {type(said).__name__} that cannot say what it is"


def storable(text: str, ending: str = "") -> str:
    """Return the text, bounded and without what PostgreSQL's text cannot hold: an error message must never be what
    fails."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    room = MESSAGE_LIMIT - len(ending)
    return (clean if len(clean) <= room else clean[: room - 1] + "…") + ending


def class_named(said: object) -> ErrorClass:
    return ErrorClass(said) if isinstance(said, str) and said in set(ErrorClass) else ErrorClass.UNKNOWN


put = object.__setattr__
"""Sets a field of an outcome while it is made; outcomes are frozen afterwards."""


@dataclass(frozen=True, slots=True)
class Done:
    """The item was worked, with this result."""

    result: dict[str, Any] = field(default_factory=dict)
    normalized: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NotFound:
    """Nothing was found for the item; it is tried again as often as its kind's policy says."""

    reason: str = "nothing was found for the item"
    result: dict[str, Any] | None = None
    """What the try came to, kept with the item."""

    def __post_init__(self) -> None:
        put(self, "reason", text(self.reason))


@dataclass(frozen=True, slots=True)
class Skip:
    """The item needs no work, for this reason."""

    reason: str
    result: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        put(self, "reason", text(self.reason))


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The try failed, and another one may do better."""

    error: str
    after: float | None = None
    """The seconds that the other side said to wait; None leaves the delay to the policy."""
    error_class: ErrorClass = ErrorClass.TRANSIENT
    result: dict[str, Any] | None = None
    """What the try came to, kept with the item until a later try has a result."""
    counted: bool = True
    """Whether the try counts as an attempt. One that does not never gives the item up."""

    def __post_init__(self) -> None:
        put(self, "error", text(self.error))
        put(self, "after", seconds(self.after))
        put(self, "error_class", class_named(self.error_class))


@dataclass(frozen=True, slots=True)
class Bury:
    """The item is given up: another try would fail as well."""

    error: str
    error_class: ErrorClass = ErrorClass.PERMANENT
    result: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        put(self, "error", text(self.error))
        put(self, "error_class", class_named(self.error_class))


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The worker was asked to stop in the middle of the item: others may take the item, and no attempt is counted."""


Outcome = Done | NotFound | Skip | RetryLater | Bury | Unfinished
