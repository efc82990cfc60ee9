"""Work that takes long in this process, and ends early when the process is asked to stop."""

from collections.abc import Iterator
from contextlib import contextmanager

from bulk_pipelines.engine.worker.stopping import Stop


class Stops:
    """The stops of what is under way. All of this is called in the thread that serves."""

    def __init__(self) -> None:
        self.asked = False
        self.under_way: set[Stop] = set()

    @contextmanager
    def one_more(self) -> Iterator[Stop]:
        """Yield the stop of something that begins."""
        stop = Stop()
        self.under_way.add(stop)
        if self.asked:
            stop.set()
        try:
            yield stop
        finally:
            self.under_way.discard(stop)

    def ask(self) -> None:
        """Let all of it end."""
        self.asked = True
        for stop in self.under_way:
            stop.set()
