"""Following a job until it is over."""

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


class Followed(Protocol):
    """What one look at a job shows."""

    @property
    def over(self) -> bool: ...


F = TypeVar("F", bound=Followed)


def follow(look: Callable[[], F], on_look: Callable[[F], None], seconds: float | None = None) -> F:
    """Look at a job again and again until it is over, and return the last look. Looks come less often as time goes by.
    Raise `TimeoutError` after so many seconds; the job goes on."""
    deadline = None if seconds is None else time.monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        seen = look()
        on_look(seen)
        if seen.over:
            return seen
        if deadline is not None and time.monotonic() + pause > deadline:
            raise TimeoutError(f"the job is not over after {seconds:g} seconds: it goes on")
        time.sleep(pause)
        pause = min(1.5 * pause, LONGEST_PAUSE)
