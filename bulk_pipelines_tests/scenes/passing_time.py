"""Time that passes when a test says so."""

from collections.abc import Callable

from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.outcomes import Done, Outcome
from bulk_pipelines.engine.worker.tools import Tools


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def taking(clock: Clock, seconds: float) -> Callable[[Lease, Tools], Outcome]:
    def work(lease: Lease, tools: Tools) -> Outcome:
        clock.pass_by(seconds)
        return Done({"term": lease.lease_term})

    return work
