"""Work items, one by one or several at once. The outcome is the handler's answer, or what its exception stands for."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass

from bulk_pipelines.engine.errors import LeaseLost
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.outcomes import Bury, Done, Outcome, RetryLater, Unfinished
from bulk_pipelines.engine.worker import retry
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import ErrorClass
from bulk_pipelines.telemetry import context

Worked = tuple[Lease, Outcome | None]
"""An item and its outcome. There is no outcome when the lease was lost on the way: then nothing is to be written."""


@dataclass
class Tally:
    """Counts of a slice's outcomes, for backpressure and for people."""

    total: int = 0
    done: int = 0
    failed: int = 0
    throttled: int = 0

    def count(self, outcome: Outcome) -> None:
        match outcome:
            case Unfinished():
                return
            case Done():
                self.done += 1
            case RetryLater(error_class=error_class) | Bury(error_class=error_class):
                self.failed += 1
                self.throttled += error_class is ErrorClass.THROTTLED
        self.total += 1


@dataclass(frozen=True)
class Slice:
    """What one slice did."""

    claimed: int
    tally: Tally
    seconds: float
    left: int
    """How many items were claimed and not begun when the slice was over. The next slice begins with them."""

    @property
    def idle(self) -> bool:
        return not self.claimed and not self.tally.total and not self.left


Perform = Callable[[Lease], Outcome | None]


def perform(kind: Kind, lease: Lease, tools: Tools) -> Outcome | None:
    """Work one item. None when its lease was lost."""
    try:
        outcome: object = kind.handle(lease, tools)
    except LeaseLost:
        return None
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is an outcome of its item
        return retry.outcome_of(error)
    if isinstance(outcome, Outcome):
        return outcome
    return Bury(f"the handler of {kind.name} returned {type(outcome).__name__}, which is not an outcome")


def one_by_one(waiting: deque[Lease], perform: Perform, go_on: Callable[[Lease], bool]) -> Iterator[Worked]:
    """Work the waiting items one by one. `go_on` says of each, when its turn comes, whether to begin it; the rest stays
    in `waiting`."""
    while waiting and go_on(waiting[0]):
        lease = waiting.popleft()
        yield lease, perform(lease)


def side_by_side(
    waiting: deque[Lease],
    perform: Perform,
    go_on: Callable[[Lease], bool],
    executor: Executor,
    concurrency: int,
) -> Iterator[Worked]:
    """Work the waiting items as `one_by_one` does, but with up to `concurrency` of them at a time."""
    running: dict[Future[Outcome | None], Lease] = {}
    while True:
        while waiting and len(running) < concurrency and go_on(waiting[0]):
            lease = waiting.popleft()
            running[executor.submit(context.carried(perform), lease)] = lease
        if not running:
            return
        ready, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in ready:
            yield running.pop(future), future.result()
