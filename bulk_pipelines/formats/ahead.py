"""Making values in a thread while others are worked with."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Generic, Self, TypeVar

Value = TypeVar("Value")


class Ahead(Iterator[Value], Generic[Value]):
    """The same values, of which a thread makes the next one while the caller works with the one before. The thread
    begins with the first one at once."""

    def __init__(self, values: Iterator[Value]) -> None:
        self.values = values
        self.executor = ThreadPoolExecutor(1, "ahead")
        self.future = self.executor.submit(next, values, None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Value:
        value = self.future.result()
        if value is None:
            raise StopIteration
        self.future = self.executor.submit(next, self.values, None)
        return value

    def close(self) -> None:
        """End the thread as soon as it has made the value that it is at."""
        self.executor.shutdown()


def ahead(values: Iterator[Value]) -> Generator[Value]:
    """Yield the same values, made ahead from the moment on at which the first one is asked for."""
    with closing(Ahead(values)) as made:
        yield from made
