"""How many items a worker takes at a time, and for how long. Pure arithmetic."""

from dataclasses import dataclass, field

from bulk_pipelines.engine.worker.pressure import Pressure


@dataclass(frozen=True)
class SliceLimits:
    """The bounds of slices, claims and leases; times are in seconds."""

    target_seconds: float = 5.0
    safety: float = 0.7
    min_claim: int = 1
    max_claim: int = 1_000
    first_claim: int = 16
    lease_floor: float = 30.0
    lease_cap: float = 900.0


@dataclass(frozen=True)
class Ewma:
    """An exponentially weighted mean. A sample that stands for `count` observations weighs as much as these one by
    one."""

    alpha: float = 0.2
    value: float | None = None

    def observe(self, sample: float, count: int = 1) -> "Ewma":
        if self.value is None:
            return Ewma(self.alpha, sample)
        weight = 1.0 - (1.0 - self.alpha) ** count
        return Ewma(self.alpha, self.value + weight * (sample - self.value))


def clamp(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


def claim_size(limits: SliceLimits, item_seconds: float | None, level: float = 1.0) -> int:
    """Return how many items to claim for a slice. `level`, above 0 and up to 1, is the share that backpressure
    leaves."""
    if item_seconds is None:
        fitting = float(limits.first_claim)
    elif item_seconds <= 0:
        fitting = float(limits.max_claim)
    else:
        fitting = limits.target_seconds / item_seconds * limits.safety
    return int(clamp(fitting * level, limits.min_claim, limits.max_claim))


def lease_seconds(limits: SliceLimits, item_seconds: float | None) -> float:
    """Return the length of a lease: long enough for a slow item, short enough for a quick rescue."""
    return clamp(2.0 * (item_seconds or 0.0), limits.lease_floor, limits.lease_cap)


@dataclass(frozen=True)
class Pace:
    """What a worker has learned of its items and of the other side; it is adjusted after each slice."""

    item_seconds: Ewma = field(default_factory=Ewma)
    pressure: Pressure = field(default_factory=Pressure)
