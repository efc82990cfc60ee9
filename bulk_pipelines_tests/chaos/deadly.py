"""Processes that are killed, as by `kill -9`, at a point that somebody else sees."""

import subprocess
from collections.abc import Callable
from concurrent.futures import Future

from bulk_pipelines_tests.servers.database_proxy import DatabaseProxy, Moment, Point

SETTLING = Point("settled AS (", Moment.BEFORE)
SETTLED = Point("settled AS (", Moment.COMMITTED)
ENDED = Point("last_error = coalesce($", Moment.COMMITTED)
"""Points that jobs of all kinds come to: outcomes of items are to be written, or are written, or the job is over."""


class Doomed:
    """A process that is to be killed. Whoever sees the point may see it before the process is known here."""

    def __init__(self) -> None:
        self.started: Future[subprocess.Popen[bytes]] = Future()

    def is_known(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self.started.set_result(process)
        return process

    def kill(self) -> None:
        """Kill the process, and return when it is dead."""
        process = self.started.result(60)
        process.kill()
        process.wait(60)


def run_until(url: str, point: Point, start: Callable[[str], subprocess.Popen[bytes]], patience: float = 120) -> int:
    """Start a process with the address of the database, and kill it at a point of what it says to the database. Return
    how it ended: it may come to its end before the point."""
    doomed = Doomed()
    with DatabaseProxy(url, point, doomed.kill) as proxy:
        return doomed.is_known(start(proxy.url)).wait(patience)
