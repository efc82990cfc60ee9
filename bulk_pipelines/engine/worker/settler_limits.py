"""The bounds of a settler. Kinds and settings name them, and need nothing of the settler itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SettlerLimits:
    """When a settler writes, how much at once, and how long it waits for the database."""

    flush_at: int = 100
    flush_seconds: float = 0.25
    batch: int = 2_000
    """The most settlements in one statement. A buffer that grew while the last statement ran is written whole, up to
    this number."""
    capacity: int = 5_000
    outage_patience: float = 300.0
    retry_seconds: float = 0.5
