"""What the commands about jobs, dead letters, declarations and upkeep print for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class JobControlled:
    """A job that was paused, resumed or cancelled."""

    job: str
    state: str


@dataclass(frozen=True)
class LetterShown:
    """Everything that is known of one dead letter."""

    item_id: int
    job_key: str
    job_status: str
    kind: str
    owner: str
    item_key: str
    attempt_count: int
    not_found_count: int
    death_count: int
    lease_term: int
    error_class: str | None
    error_message: str | None
    worker: str | None
    dagster_run_id: str | None
    created_at: datetime
    buried_at: datetime
    input: Any
    checkpoint: Any


@dataclass(frozen=True)
class Redriven:
    """Dead letters that are tried again."""

    items: int
    goes_on: bool
    """Whether the job that was named had no dead letters, and goes on with what it had not begun."""
    left: Mapping[str, int]
    """How many dead letters of cancelled jobs stay, by job."""


@dataclass(frozen=True)
class Discarded:
    """Dead letters that were given up for good."""

    items: int


@dataclass(frozen=True)
class ResourceShown:
    """Something that can be imported and exported."""

    name: str
    table: str
    says: str
    built_in: bool


@dataclass(frozen=True)
class SamplesMade:
    """The sample tables that were made; those that were there already are left out."""

    made: Sequence[str]


@dataclass(frozen=True)
class Adopted:
    """A table whose declaration was written to a file."""

    name: str
    path: str
    columns: Sequence[str]
    keys: Sequence[str]
    refers_to: Sequence[str]
    provenance: bool


@dataclass(frozen=True)
class Apart:
    """Something in which a declaration and its table differ."""

    said: str
    stops_imports: bool


@dataclass(frozen=True)
class ResourceChecked:
    """A declaration that was compared with its table."""

    name: str
    adopted: bool
    """Whether it was adopted; others are looked at by `bulk doctor`."""
    differences: Sequence[Apart]


@dataclass(frozen=True)
class Migrated:
    """The migrations that were applied."""

    applied: Sequence[str]


@dataclass(frozen=True)
class PassLine:
    """Something that a pass of upkeep did, or could not do."""

    what: str
    count: int
    problem: str | None
