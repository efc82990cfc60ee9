"""Clocks that are wrong, for a whole process. To be installed before anything else is imported."""

import datetime
import time
from typing import Self

real_time, real_monotonic = time.time, time.monotonic
off_by = 0.0


class WrongDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Self:
        return cls.fromtimestamp(real_time() + off_by, tz)

    @classmethod
    def utcnow(cls) -> Self:
        return cls.now(datetime.UTC).replace(tzinfo=None)


def install(seconds: float) -> None:
    """Every clock that Python code reads is off by this much from now on."""
    global off_by  # noqa: PLW0603 - a process has one set of clocks
    off_by = seconds
    time.time = lambda: real_time() + off_by
    time.monotonic = lambda: real_monotonic() + off_by
    WrongDatetime.__name__ = WrongDatetime.__qualname__ = "datetime"
    WrongDatetime.__module__ = "datetime"
    datetime.datetime = WrongDatetime  # type: ignore[misc]
