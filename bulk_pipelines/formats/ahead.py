"""Making values in a thread while others are worked with."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Value = TypeVar("Value")


def ahead(values: Iterator[Value]) -> Generator[Value]:
    """Yield the same values, but make the next one in a thread while the caller works with the one before."""
    with ThreadPoolExecutor(1, "ahead") as executor:
        future = executor.submit(next, values, None)
        while (value := future.result()) is not None:
            future = executor.submit(next, values, None)
            yield value
