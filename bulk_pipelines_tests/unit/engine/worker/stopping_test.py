"""Asking to stop: from threads, from signal handlers in the middle of anything."""

import signal
import threading
import time
from types import FrameType

from bulk_pipelines.engine.worker.stopping import Stop

ROUNDS = 2_000


def test_a_signal_handler_may_ask_at_any_moment_of_the_wait() -> None:
    """The test hangs after some hundreds of rounds with threading.Event: the handler waits for a lock that its own
    thread holds."""
    stop = Stop()

    asked = 0

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        stop.set()

    # The timer is also the one of the tests' time limit: it is given back.
    handler = signal.signal(signal.SIGALRM, ask)
    timer = signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        while asked < ROUNDS:
            stop = Stop()
            while not stop.is_set():
                stop.wait(0.00001)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def test_a_wait_ends_when_it_is_asked_for_in_all_threads() -> None:
    stop = Stop()
    waiting = [threading.Thread(target=stop.wait, args=(60,)) for _ in range(3)]
    for thread in waiting:
        thread.start()
    stop.set()
    for thread in waiting:
        thread.join(10)
        assert not thread.is_alive()
    begun = time.monotonic()
    stop.wait(60)
    assert time.monotonic() - begun < 10


def test_a_wait_ends_after_its_time() -> None:
    stop = Stop()
    stop.wait(0.01)
    assert not stop.is_set()
