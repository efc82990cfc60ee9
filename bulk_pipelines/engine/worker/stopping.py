"""The wish that a worker stops, which a signal handler may express at any moment."""

from contextlib import suppress
from queue import Empty, SimpleQueue


class Stop:
    """As threading.Event, but for signal handlers: they interrupt the very thread that may hold an event's lock, and
    would wait for it for ever. A simple queue is made for that."""

    def __init__(self) -> None:
        self.asked = False
        self.bell: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self.asked = True
        self.bell.put(None)

    def is_set(self) -> bool:
        return self.asked

    def wait(self, seconds: float) -> None:
        """Until it is asked for, or that long."""
        with suppress(Empty):
            self.bell.get(timeout=seconds)
            # For whoever else is waiting, and whoever asks again.
            self.bell.put(None)
