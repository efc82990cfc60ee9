"""What working an item came to. Handlers return one of these; retry.decide turns it into a settlement.

Handlers are other people's code: whatever they say of a delay, a reason or a class of errors is made what it must be
here, where it comes in. What a result holds is looked at when it is written, see settle.
"""

import math
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

from bulk_pipelines.errors import ErrorClass


def seconds(said: object) -> float | None:
    """A delay as somebody says it: any number, its text, or a timedelta. None when that says nothing."""
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
    """The object's own words, whatever it is."""
    try:
        return str.__str__(said if isinstance(said, str) else str(said)) or "no reason was given"
    except Exception:  # noqa: BLE001 - the object's own code, and its error says as much
        return f"a {type(said).__name__} that cannot say what it is"


def class_named(said: object) -> ErrorClass:
    return ErrorClass(said) if isinstance(said, str) and said in set(ErrorClass) else ErrorClass.UNKNOWN


put = object.__setattr__
"""Outcomes are frozen once they are made."""


@dataclass(frozen=True, slots=True)
class Done:
    result: dict[str, Any] = field(default_factory=dict)
    normalized: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NotFound:
    reason: str = "nothing was found for the item"

    def __post_init__(self) -> None:
        put(self, "reason", text(self.reason))


@dataclass(frozen=True, slots=True)
class Skip:
    reason: str

    def __post_init__(self) -> None:
        put(self, "reason", text(self.reason))


@dataclass(frozen=True, slots=True)
class RetryLater:
    error: str
    after: float | None = None
    """Seconds, when the other side said how long to wait; else the policy's delay."""
    error_class: ErrorClass = ErrorClass.TRANSIENT

    def __post_init__(self) -> None:
        put(self, "error", text(self.error))
        put(self, "after", seconds(self.after))
        put(self, "error_class", class_named(self.error_class))


@dataclass(frozen=True, slots=True)
class Bury:
    error: str
    error_class: ErrorClass = ErrorClass.PERMANENT

    def __post_init__(self) -> None:
        put(self, "error", text(self.error))
        put(self, "error_class", class_named(self.error_class))


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The worker was asked to stop in the middle: back to where others can take it, no attempt counted."""


Outcome = Done | NotFound | Skip | RetryLater | Bury | Unfinished
