"""The wish that a worker stops, which a signal handler may express at any moment."""

from contextlib import suppress
from queue import Empty, SimpleQueue


class Stop:
    """An event like threading.Event, but safe for signal handlers. A handler interrupts the very thread that may hold
    an event's lock, and would wait for that lock for ever; a SimpleQueue is made for this."""

    def __init__(self) -> None:
        self.asked = False
        self.bell: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self.asked = True
        self.bell.put(None)

    def is_set(self) -> bool:
        return self.asked

    def wait(self, seconds: float) -> None:
        """Wait until a stop is asked for, or for so many seconds."""
        with suppress(Empty):
            self.bell.get(timeout=seconds)
            # Ring again for other waiters, and for whoever asks later.
            self.bell.put(None)
