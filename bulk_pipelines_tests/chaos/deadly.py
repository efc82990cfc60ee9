"""Processes that kill themselves at a point that a test has named."""

import os
import signal
from typing import Any


def kill_after(owner: Any, name: str, count: int) -> None:
    """Let this process die as by `kill -9` after the function has returned for the time with the number `count`."""
    original, left = getattr(owner, name), [count]

    def deadly(*arguments: Any, **options: Any) -> Any:
        answer = original(*arguments, **options)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(owner, name, deadly)
