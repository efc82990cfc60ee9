"""Listening to what this process opens: a test does something just before the system opens a name, or counts
connections. So a race with somebody else is run, and logins are known, without replacing a function of the product."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

waiting: dict[str, Callable[[], object]] = {}
"""What is done once, before a name is opened. Names are as they are given to the system: those of a part of a path."""


connections: Counter[int] = Counter()
"""How often this process has asked for a connection to each port."""


def heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and waiting and isinstance(arguments[0], str) and arguments[0] in waiting:
        waiting.pop(arguments[0])()
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        connections[arguments[1][1]] += 1


sys.addaudithook(heard)  # which nobody can take away again: without anything in `waiting` it only counts


@contextmanager
def before_opening(name: str, happen: Callable[[], object]) -> Iterator[None]:
    """Do something once: before this name is opened. If that never happens, the test fails."""
    waiting[name] = happen
    try:
        yield
        assert name not in waiting, f"{name} was opened"
    finally:
        waiting.pop(name, None)
