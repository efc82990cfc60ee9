"""Backpressure: when the other side is in trouble take less, fewer at once, and come back later.

The level halves on a bad slice and recovers by a tenth per calm one, so that recovery is gradual.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class PressureLimits:
    throttled_share: float = 0.05
    error_share: float = 0.3
    recovery: float = 0.1
    floor: float = 1 / 64
    min_samples: int = 5
    """Fewer outcomes say nothing about shares, except that a throttled one always counts."""


@dataclass(frozen=True)
class Pressure:
    level: float = 1.0

    def concurrency(self, most: int) -> int:
        return max(1, int(most * self.level))

    @property
    def spacing(self) -> float:
        """What the delays of retries are multiplied by."""
        return 1.0 / self.level


def after_slice(limits: PressureLimits, pressure: Pressure, total: int, throttled: int, failed: int) -> Pressure:
    """`failed` counts what is to be retried or was given up, the throttled ones included."""
    if total == 0:
        return pressure
    enough = total >= limits.min_samples
    if throttled and throttled / total > limits.throttled_share:
        return replace(pressure, level=max(limits.floor, pressure.level / 2))
    if enough and failed / total > limits.error_share:
        return replace(pressure, level=max(limits.floor, pressure.level / 2))
    return replace(pressure, level=min(1.0, pressure.level + limits.recovery))
