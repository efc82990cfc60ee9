"""Backpressure: when the other side is in trouble, a worker takes fewer items, works fewer at once, and retries later.

The level halves after a bad slice and rises by a tenth after a calm one, so that recovery is gradual.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class PressureLimits:
    """What makes a slice a bad one, and how the level moves."""

    throttled_share: float = 0.05
    error_share: float = 0.3
    recovery: float = 0.1
    floor: float = 1 / 64
    min_samples: int = 5
    """Fewer outcomes than this say nothing about the share of errors. Throttled outcomes always count."""


@dataclass(frozen=True)
class Pressure:
    """How much of its full work a worker does, from the floor up to 1."""

    level: float = 1.0

    def concurrency(self, most: int) -> int:
        return max(1, int(most * self.level))

    @property
    def spacing(self) -> float:
        """The factor by which the delays of retries are multiplied."""
        return 1.0 / self.level


def after_slice(limits: PressureLimits, pressure: Pressure, total: int, throttled: int, failed: int) -> Pressure:
    """Return the pressure after a slice. `failed` counts the items that are to be retried or were given up, the
    throttled ones included."""
    if total == 0:
        return pressure
    enough = total >= limits.min_samples
    if throttled and throttled / total > limits.throttled_share:
        return replace(pressure, level=max(limits.floor, pressure.level / 2))
    if enough and failed / total > limits.error_share:
        return replace(pressure, level=max(limits.floor, pressure.level / 2))
    return replace(pressure, level=min(1.0, pressure.level + limits.recovery))
