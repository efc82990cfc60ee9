"""Batch sizes found live: double while the database answers quickly, shrink when it does not."""

from dataclasses import dataclass, field, replace
from enum import StrEnum


class Reason(StrEnum):
    """Why the next size is what it is."""

    QUICK = "quick"
    STEADY = "steady"
    SLOW = "slow"
    WAITED = "waited for a connection"
    FAILED = "failed"


@dataclass(frozen=True)
class BatchLimits:
    min_rows: int = 64
    max_rows: int = 50_000
    max_bytes: int = 16 * 1024 * 1024
    start_rows: int = 64
    quick_seconds: float = 0.25
    """The target of the typical answer: below it, batches grow."""
    slow_seconds: float = 1.0
    """The target of the slowest answers: one above it shrinks the next batch."""
    waited_seconds: float = 0.05
    alpha: float = 0.4


@dataclass(frozen=True)
class Sample:
    """One batch as it went."""

    rows: int
    bytes: int
    seconds: float
    waited_seconds: float = 0.0
    failed: bool = False


@dataclass(frozen=True)
class Step:
    """A sample and what was made of it; the trajectory is the list of these."""

    sample: Sample
    next_rows: int
    reason: Reason


@dataclass(frozen=True)
class BatchSize:
    """How many rows the next batch takes, and the seconds a batch has been taking."""

    limits: BatchLimits
    rows: int
    seconds: float | None = None


def first(limits: BatchLimits) -> BatchSize:
    return BatchSize(limits, bounded(limits, limits.start_rows))


def bounded(limits: BatchLimits, rows: float) -> int:
    return int(max(limits.min_rows, min(limits.max_rows, rows)))


def following(size: BatchSize, sample: Sample) -> tuple[BatchSize, Reason]:
    limits = size.limits
    smooth = sample.seconds if size.seconds is None else size.seconds + limits.alpha * (sample.seconds - size.seconds)
    if sample.failed:
        return BatchSize(limits, bounded(limits, size.rows / 4), smooth), Reason.FAILED
    if sample.seconds > limits.slow_seconds:
        # The old mean belongs to the old size.
        return BatchSize(limits, bounded(limits, size.rows / 2), None), Reason.SLOW
    if sample.waited_seconds > limits.waited_seconds:
        return BatchSize(limits, bounded(limits, size.rows / 2), smooth), Reason.WAITED
    # A last, short batch says nothing about a full one.
    filled = sample.rows >= size.rows or sample.bytes >= limits.max_bytes
    if filled and smooth < limits.quick_seconds and size.rows < limits.max_rows:
        return BatchSize(limits, bounded(limits, size.rows * 2), smooth), Reason.QUICK
    return replace(size, seconds=smooth), Reason.STEADY


@dataclass
class BatchSizer:
    """The size in force and the way it came there."""

    size: BatchSize
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def within(cls, limits: BatchLimits) -> "BatchSizer":
        return cls(first(limits))

    @property
    def rows(self) -> int:
        return self.size.rows

    @property
    def max_bytes(self) -> int:
        return self.size.limits.max_bytes

    def observe(self, sample: Sample) -> Step:
        self.size, reason = following(self.size, sample)
        step = Step(sample, self.size.rows, reason)
        self.steps.append(step)
        return step
