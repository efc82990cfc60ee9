"""What the commands of drops print for programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class DropShown:
    """A dropped file, as the ledger has it."""

    at: datetime
    source: str
    path: str
    state: str
    job: str | None
    note: str | None


@dataclass(frozen=True)
class DropRetried:
    """A file that the next look takes again."""

    source: str
    path: str


@dataclass(frozen=True)
class ScanShown:
    """What a look at a source found and did."""

    source: str
    seen: int
    watched: int
    taken: int
    jobs: Sequence[str]
    put_away: int
    problem: str | None
    said: str
    """A sentence that says all of this."""
