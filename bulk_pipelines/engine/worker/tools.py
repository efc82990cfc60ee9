"""What a handler is given besides its item."""

import threading
from collections.abc import Callable
from typing import Any, Protocol

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.items import leases
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.rate_limit import Limit, Limiter
from bulk_pipelines.engine.worker.counting import Counting
from bulk_pipelines.engine.worker.retry import Tries
from bulk_pipelines.errors import Unavailable

MOST_LIMITERS = 1_000
"""How many limits a worker remembers: a source may name another web server in each row."""


class Begun(Protocol):
    """What a handler has begun of the item that follows."""

    def close(self) -> None: ...


class Tools:
    """The tools of one worker, which it gives to each call of its kind's handler."""

    def __init__(
        self,
        pool: Engine,
        job: Job,
        worker: str,
        lease_seconds: Callable[[], float],
        stopping: Callable[[], bool],
        counting: Counting | None = None,
        following: Callable[[], Lease | None] = lambda: None,
    ) -> None:
        self.pool = pool
        self.job = job
        self.worker = worker
        self.lease_seconds = lease_seconds
        self.stopping = stopping
        """Returns True when a long item should write a checkpoint and return Unfinished: because of a pause, a cancel,
        or the worker's own stop."""
        self.checkpointed: set[tuple[int, int]] = set()
        self.following = following
        """Returns the item that this worker works next, for a handler that begins to read it while the one in work is
        still being written; None if there is none, or if the two are not to be beside each other. It is for kinds that
        work one item at a time, and that prepare nothing."""
        self.begun: Begun | None = None
        """What a handler has begun of the item that follows. The handler of that item takes it from here; the worker
        ends it if the item is not worked."""
        self.prepared: Any = None
        """Whatever Kind.prepare left here for the items of its claim."""
        self.counting = counting or Counting(job.job_id, None)
        self.limiters: dict[Limit, Limiter] = {}
        self.limiters_lock = threading.Lock()

    def limiter(self, limit: Limit) -> Limiter:
        """Return the limiter of a limit that all workers share. Waiting for it ends when the worker is to stop."""
        with self.limiters_lock:
            if limit not in self.limiters:
                if len(self.limiters) >= MOST_LIMITERS:
                    self.limiters.clear()  # whoever uses one goes on with it
                self.limiters[limit] = Limiter(self.pool, limit, stopping=self.stopping)
            return self.limiters[limit]

    def end_begun(self) -> None:
        """End what was begun of an item that is not worked now."""
        if self.begun is not None:
            self.begun.close()
            self.begun = None

    def hold(self, connection: Connection, lease: Lease) -> None:
        """Lock the item. A handler calls this first in every transaction that writes the item's data. Raises LeaseLost.

        Between its statements the transaction may be idle for as long as the lease has left, but at least 10 seconds,
        and no longer.
        """
        leases.hold(connection, lease)

    def checkpoint(self, connection: Connection, lease: Lease, progress: dict[str, Any]) -> None:
        """Write how far the item is. A handler calls this last in such a transaction: data, checkpoint and lease commit
        together. Raises LeaseLost."""
        leases.checkpoint(connection, lease, progress, self.lease_seconds())
        self.checkpointed.add((lease.item_id, lease.lease_term))

    def ended(self, lease: Lease) -> bool:
        """Forget the lease, because work on its item has ended. Tell whether a checkpoint was written under it, which
        need not have been committed."""
        term = (lease.item_id, lease.lease_term)
        got_on = term in self.checkpointed
        self.checkpointed.discard(term)
        return got_on

    def tries(self, lease: Lease) -> Tries:
        """Return the tries behind an item for which a checkpoint was written. The checkpoint resets them, and only the
        database knows whether it was committed. When the database cannot be asked, this takes the checkpoint as
        committed: a try too many is better than one too few."""
        try:
            with transaction(self.pool) as connection:
                return leases.tries(connection, lease)
        except (Unavailable, psycopg.OperationalError):
            return Tries(attempts=1)
