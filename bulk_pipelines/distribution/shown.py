"""What the commands of distributions print. The names of the fields are those of the HTTP API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DistributionSubmitted:
    jobId: str
    status: str


@dataclass(frozen=True)
class DistributionShown:
    """A job's state, its counts, and a page of its files."""

    jobId: str
    status: str
    total: int
    pending: int
    running: int
    retryWait: int
    done: int
    failed: int
    cancelled: int
    filesGenerated: int
    filesReused: int
    errorMessage: str | None
    dataContent: Sequence[Mapping[str, Any]]
    next: str | None


@dataclass(frozen=True)
class SampleShown:
    """A request for all rows of the sample."""

    inputs: Sequence[Mapping[str, Any]]
