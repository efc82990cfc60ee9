"""Listening to what this process opens: a test does something just before the system opens a name. So a race with
somebody else is run without replacing a function of the product."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

waiting: dict[str, Callable[[], object]] = {}
"""What is done once, before a name is opened. Names are as they are given to the system: those of a part of a path."""


def heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and waiting and isinstance(arguments[0], str) and arguments[0] in waiting:
        waiting.pop(arguments[0])()


sys.addaudithook(heard)  # which nobody can take away again: without anything in `waiting` it does nothing


@contextmanager
def before_opening(name: str, happen: Callable[[], object]) -> Iterator[None]:
    """Do something once: before this name is opened. If that never happens, the test fails."""
    waiting[name] = happen
    try:
        yield
        assert name not in waiting, f"{name} was opened"
    finally:
        waiting.pop(name, None)
