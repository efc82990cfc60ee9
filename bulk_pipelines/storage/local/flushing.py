"""Bringing a file to the disk while it is still being written."""

import os
from concurrent.futures import Future, ThreadPoolExecutor

EVERY = 8 << 20
"""How many bytes are brought to the disk at a time. For a file with fewer, no thread is started."""


class Flushing:
    """Brings what was written to the disk, in a thread, so that the one who writes has little to wait for at the end.

    The system tells an error of the disk only once, so the errors of the thread are raised where the writing goes on,
    and at the latest by `finish`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.bytes = 0
        self.thread: ThreadPoolExecutor | None = None
        self.running: Future[None] | None = None

    def wrote(self, count: int) -> None:
        self.bytes += count
        if self.bytes < EVERY:
            return
        self.bytes = 0
        self.finish()
        self.thread = self.thread or ThreadPoolExecutor(1, "flushing")
        self.running = self.thread.submit(os.fsync, self.descriptor)

    def finish(self) -> None:
        """Wait for what is being brought to the disk."""
        if self.running is not None:
            self.running.result()

    def close(self) -> None:
        """End the thread, when it has brought to the disk what it is at."""
        if self.thread:
            self.thread.shutdown()
