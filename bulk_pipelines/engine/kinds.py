"""What the engine knows of a kind of job: how its items are worked and retried, and how its jobs end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.items.settling import Record
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Outcome
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.engine.worker.counting import WriteSums
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import InvalidInput

Handler = Callable[[Lease, Tools], Outcome]
Prepare = Callable[[Sequence[Lease], Tools], None]
Finish = Callable[[Connection, Job], "Ending"]


@dataclass(frozen=True)
class Ending:
    """How a kind ends one of its jobs: the event, and the result or the error to keep."""

    event: JobEvent
    result: dict[str, Any] | None = None
    error: str | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of job."""

    name: str
    handle: Handler
    """Works one item. It may be called from several threads at once."""
    prepare: Prepare | None = None
    """Called once for each claim, before its items: here one query can fetch what all of them need."""
    record: Record | None = None
    """Called with items that succeeded, in the transaction that settles them. It writes what else our database says of
    them."""
    count: WriteSums | None = None
    """Writes what handlers have counted with their tools, in a transaction that settles items."""
    reconcile: Callable[[Engine, Job], bool] | None = None
    """Does, before the job ends, what can only be done for all its items together. It may take long, be cut short and
    be called again. False says that it was overtaken, by a pause for instance, and that its caller must not end the
    job. It may end the job itself."""
    finish: Finish | None = None
    """Called when no item is open, in the transaction that ends the job. Without it the counters decide."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    slices: SliceLimits = field(default_factory=SliceLimits)
    settling: SettlerLimits = field(default_factory=SettlerLimits)
    concurrency: int = 1
    """How many items one worker works at once."""
    item_timeout: float = 3600.0
    """Seconds of work after which an item's lease is not renewed any more: a handler that hangs must not keep its item
    for ever."""
    fail_fast: bool = False
    """Whether the first buried item fails the job."""
    adapt: Callable[[Job, "Kind"], "Kind"] | None = None
    """Returns the kind as one job wants it: with the budgets and the number of items at once that its parameters name.
    A worker asks once."""

    def of_job(self, job: Job) -> "Kind":
        return self if self.adapt is None else self.adapt(job, self)


class Kinds(Mapping[str, Kind]):
    """The kinds that this process knows."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.by_name = {kind.name: kind for kind in kinds}

    def __getitem__(self, name: str) -> Kind:
        try:
            return self.by_name[name]
        except (KeyError, TypeError):
            known = ", ".join(sorted(self.by_name)) or "none"
            raise InvalidInput("kind", f"{name!r} is not a kind of job; known: {known}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Any:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)
