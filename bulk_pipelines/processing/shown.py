"""What the commands of processing print for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bulk_pipelines.counted import counted


@dataclass(frozen=True)
class ProcessShown:
    """What a job of processing came to."""

    job: str
    submitted_before: bool
    state: str
    outcomes: Mapping[str, int]
    """How many rows have each outcome; empty if the job was only submitted."""
    error: str | None


@dataclass(frozen=True)
class Reprocessed:
    """Rows that are tried again, or would be."""

    rows: int
    dry_run: bool

    def __str__(self) -> str:
        if self.dry_run:
            return f"{counted(self.rows, 'row')} would be tried again"
        return f"{counted(self.rows, 'row is', 'rows are')} tried again"


@dataclass(frozen=True)
class KickOffShown:
    """How far a job is after a kick-off. The names of the fields are those of the HTTP API."""

    jobId: str
    status: str
    worked: int
    open: int
    ended: str


@dataclass(frozen=True)
class RecipeShown:
    name: str
    type: str
    says: str
    place: str
    """Where it is declared."""


@dataclass(frozen=True)
class RecipesChecked:
    recipes: int
    providers: int


@dataclass(frozen=True)
class CallShown:
    """A call of a provider."""

    provider: str
    request: str
    body: Any
    reply: Any
    seconds: float


@dataclass(frozen=True)
class TriedRow:
    """A row that a recipe was tried on, with every call that was made for it."""

    row: int
    calls: Sequence[CallShown]
    evidence: Mapping[str, Any]


@dataclass(frozen=True)
class ReviewRow:
    """A row with its candidates."""

    item_key: str
    row: Mapping[str, Any]
    outcome: str
    reason: str | None
    lead: float | None
    matched_with: str | None
    candidates: Sequence[Mapping[str, Any]]
    decision: str | None
    decided_by: str | None
    rejected: Sequence[str]


@dataclass(frozen=True)
class DecisionShown:
    """What a decision came to."""

    decision: str
    entry: Mapping[str, Any] | None
    rejected: Sequence[str]
    outcome: str
    changed: bool


@dataclass(frozen=True)
class DecisionsApplied:
    rows: int


@dataclass(frozen=True)
class ThresholdsShown:
    """The present thresholds, the proposed ones, and what these would change."""

    decisions: int
    present: Mapping[str, Any]
    proposed: Mapping[str, Any] | None
    more: int
    less: int
