"""Batch sizes found live: they double while the database answers quickly, and shrink when it does not."""

from dataclasses import dataclass, field, replace
from enum import StrEnum


class Reason(StrEnum):
    """Why the next batch has the size that it has."""

    QUICK = "quick"
    STEADY = "steady"
    SLOW = "slow"
    WAITED = "waited for a connection"
    FAILED = "failed"


@dataclass(frozen=True)
class BatchLimits:
    """The bounds of a batch, and the times by which its size is judged."""

    min_rows: int = 64
    max_rows: int = 50_000
    max_bytes: int = 16 * 1024 * 1024
    start_rows: int = 64
    quick_seconds: float = 0.25
    """The target of the typical answer: while the mean time is below it, batches grow."""
    slow_seconds: float = 1.0
    """The target of the slowest answers: an answer that takes longer halves the next batch."""
    waited_seconds: float = 0.05
    """A batch that waited longer than this for a connection halves the next one."""
    alpha: float = 0.4
    """The weight of a new sample in the mean time."""


@dataclass(frozen=True)
class Sample:
    """One batch that was written: its size and the time it took."""

    rows: int
    bytes: int
    seconds: float
    waited_seconds: float = 0.0
    failed: bool = False


@dataclass(frozen=True)
class Step:
    """A sample and the size that was chosen after it; a list of steps is the trajectory of the sizes."""

    sample: Sample
    next_rows: int
    reason: Reason


@dataclass(frozen=True)
class BatchSize:
    """How many rows the next batch takes, and how many seconds a batch takes on average."""

    limits: BatchLimits
    rows: int
    seconds: float | None = None


def first(limits: BatchLimits) -> BatchSize:
    """Return the size of the first batch."""
    return BatchSize(limits, bounded(limits, limits.start_rows))


def bounded(limits: BatchLimits, rows: float) -> int:
    return int(max(limits.min_rows, min(limits.max_rows, rows)))


def following(size: BatchSize, sample: Sample) -> tuple[BatchSize, Reason]:
    """Return the size of the batch after this sample, and why it has that size."""
    limits = size.limits
    smooth = sample.seconds if size.seconds is None else size.seconds + limits.alpha * (sample.seconds - size.seconds)
    if sample.failed:
        return BatchSize(limits, bounded(limits, size.rows / 4), smooth), Reason.FAILED
    if sample.seconds > limits.slow_seconds:
        # The mean is forgotten, because it was measured at the old size.
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
    """The size that is in force now, and the steps that led to it."""

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
