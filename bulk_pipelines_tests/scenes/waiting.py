"""Waiting for something to become true, with a deadline: never a bare sleep."""

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], meaning: str, seconds: float = 30) -> None:
    """Wait until the condition holds; after the deadline the test fails and says what did not happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s it is still not so that {meaning}"
        time.sleep(0.02)
