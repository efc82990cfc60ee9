"""What the command of exports prints for programs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ExportShown:
    """What an export came to."""

    job: str
    submitted_before: bool
    """Whether the idempotency key named an export that was there already."""
    state: str
    rows: int | None
    bytes: int | None
    sha256: str | None
    location: str | None
    write_seconds: float | None
    seconds: float | None
    """How long it took in all, from its submission to its end."""
    rows_per_second: float | None
    error: str | None
