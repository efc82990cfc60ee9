"""Work of this process that takes long ends early when the process is asked to stop."""

from collections.abc import Iterator
from contextlib import contextmanager

from bulk_pipelines.engine.worker.stopping import Stop


class Stops:
    """The stops of the work that is under way. Everything here is called in the thread that serves."""

    def __init__(self) -> None:
        self.asked = False
        self.under_way: set[Stop] = set()

    @contextmanager
    def one_more(self) -> Iterator[Stop]:
        """Yield the stop of a piece of work that begins. It is set when the process is asked to stop."""
        stop = Stop()
        self.under_way.add(stop)
        if self.asked:
            stop.set()
        try:
            yield stop
        finally:
            self.under_way.discard(stop)

    def ask(self) -> None:
        """Ask all work to end, also what begins later."""
        self.asked = True
        for stop in self.under_way:
            stop.set()
