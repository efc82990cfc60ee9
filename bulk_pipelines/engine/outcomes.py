"""What working an item came to. Handlers return one of these; retry.decide turns it into a settlement."""

from dataclasses import dataclass, field
from typing import Any

from bulk_pipelines.engine.errors import ErrorClass


@dataclass(frozen=True, slots=True)
class Done:
    result: dict[str, Any] = field(default_factory=dict)
    normalized: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NotFound:
    reason: str = "nothing was found for the item"


@dataclass(frozen=True, slots=True)
class Skip:
    reason: str


@dataclass(frozen=True, slots=True)
class RetryLater:
    error: str
    after: float | None = None
    """Seconds, when the other side said how long to wait; else the policy's delay."""
    error_class: ErrorClass = ErrorClass.TRANSIENT


@dataclass(frozen=True, slots=True)
class Bury:
    error: str
    error_class: ErrorClass = ErrorClass.PERMANENT


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The worker was asked to stop in the middle: back to where others can take it, no attempt counted."""


Outcome = Done | NotFound | Skip | RetryLater | Bury | Unfinished
