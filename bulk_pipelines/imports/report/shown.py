"""What the commands of imports print for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ImportShown:
    """What an import came to."""

    job: str
    submitted_before: bool
    """Whether the idempotency key named an import that was there already."""
    state: str
    mode: str
    match_on: str | None
    """Upsert: the key by which records and rows were matched."""
    read: int
    loaded: int
    inserted: int
    updated: int
    unchanged: int
    rejected: int
    superseded: int
    valid: int
    unprocessed: int
    load_seconds: float | None
    seconds: float | None
    """How long it took in all, from its submission to its end."""
    rows_per_second: float | None
    error: str | None


@dataclass(frozen=True)
class RejectShown:
    """A record that was rejected."""

    line: int
    reasons: Sequence[Mapping[str, Any]]
    record: str | None
    """null where a server does not tell it."""


def why(reasons: Sequence[Mapping[str, Any]]) -> str:
    """Say why a record was rejected: each reason with its code, the field, the value, and what else is known."""
    told = ("code", "field", "value", "detail")
    return "; ".join(" ".join(str(each[name]) for name in told if each.get(name)) for each in reasons)


@dataclass(frozen=True)
class RejectsShown:
    """A page of rejected records, in the order of the file."""

    job: str
    rejects: Sequence[RejectShown]
    total: int | None
    """How many there are in all; null where that is not known."""
    more: bool


@dataclass(frozen=True)
class UndoShown:
    """What was taken back of an import, or could be."""

    job: str
    free: int
    """The rows that could be taken back."""
    changed: int
    referred_to: int
    removed: int
