"""The one thread of a worker that writes to its items: it writes settlements in batches, and renews held leases.

There is one thread, so that two statements of a worker never wait for each other's rows. Nothing is dropped: a full
buffer blocks whoever adds to it, the thread waits until an outage is over, and stop() drains the buffer.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import leases, settling
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.items.settling import Record, Settled
from bulk_pipelines.engine.states import ItemEvent, JobState
from bulk_pipelines.engine.worker.counting import Counting
from bulk_pipelines.engine.worker.measuring import Flush, unheard
from bulk_pipelines.engine.worker.retry import Settlement
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.telemetry import context, events, spans

log = logging.getLogger(__name__)


class SettlerFailed(Exception):
    """The settlements could not be written: the items stay leased until they are rescued."""


class Settler:
    """The leases that a worker holds, and the settlements it has still to write."""

    def __init__(
        self,
        pool: Engine,
        job_id: int,
        lease_seconds: Callable[[], float],
        item_timeout: float,
        limits: SettlerLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        record: Record | None = None,
        counting: Counting | None = None,
    ) -> None:
        self.pool = pool
        self.job_id = job_id
        self.lease_seconds = lease_seconds
        self.item_timeout = item_timeout
        self.limits = limits or SettlerLimits()
        self.clock = clock
        self.record = record
        self.counting = counting or Counting(job_id, None)
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.buffer: list[Settled] = []
        self.writing: list[Settled] = []
        self.held: dict[int, Lease] = {}
        self.begun_at: dict[int, float] = {}
        self.renewed_at = clock()
        self.granted = lease_seconds()
        """The length, in seconds, of the shortest lease that any held item was given."""
        self.lost_count = 0
        self.open_items: int | None = None
        self.job_status: JobState | None = None
        self.failure: Exception | None = None
        self.draining = 0
        self.stopping = False
        self.flushed: Callable[[Flush], None] = unheard
        """Called with each batch that was written, by the thread that writes."""
        self.oldest = clock()
        """When the first outcome came into the empty buffer."""
        self.fullness = 0.0
        self.thread = threading.Thread(target=context.carried(self.loop), name="settler", daemon=True)
        self.thread.start()

    def hold(self, claimed: Iterable[Lease]) -> None:
        """Renew these leases from now on."""
        length = self.lease_seconds()
        with self.changed:
            if not self.held:
                self.renewed_at, self.granted = self.clock(), length
            self.granted = min(self.granted, length)
            self.held.update((lease.item_id, lease) for lease in claimed)

    def unsettled(self) -> set[int]:
        """Return the ids of the items whose leases are not known to be over."""
        with self.lock:
            return {*self.held, *(each.item_id for each in (*self.buffer, *self.writing))}

    def begin(self, lease: Lease) -> bool:
        """Note that work on the item begins now. False when its lease is known to be lost, so that the item is somebody
        else's."""
        with self.lock:
            if lease.item_id not in self.held:
                return False
            self.begun_at[lease.item_id] = self.clock()
            return True

    def prepared(self, claimed: Iterable[Lease]) -> None:
        """Note that the preparation of these items is over. It counted as work on all of them; from now on each item
        counts from its own turn."""
        with self.changed:
            for lease in claimed:
                self.begun_at.pop(lease.item_id, None)

    def forget(self, lease: Lease) -> None:
        """Forget a lost lease: it is not renewed any more, and nothing is written for its item."""
        with self.lock:
            self.held.pop(lease.item_id, None)
            self.begun_at.pop(lease.item_id, None)
            self.lost_count += 1

    def add(self, settled: Settled) -> None:
        """Add a settlement to write. Blocks while the buffer is full; raises SettlerFailed when settlements cannot be
        written."""
        with self.lock:
            if len(self.buffer) >= self.limits.capacity:
                events.error("buffer is full", waiting=len(self.buffer))
                while len(self.buffer) >= self.limits.capacity and self.failure is None:
                    self.changed.wait()
            self.check()
            if not self.buffer:
                self.oldest = self.clock()
            self.buffer.append(settled)
            self.held.pop(settled.item_id, None)
            self.begun_at.pop(settled.item_id, None)
            if len(self.buffer) == self.limits.flush_at:
                self.changed.notify_all()

    def drain(self) -> None:
        """Block until everything that was added is written."""
        with self.changed:
            self.draining += 1
            self.changed.notify_all()
            try:
                while (self.buffer or self.writing) and self.failure is None:
                    self.changed.wait()
            finally:
                self.draining -= 1
            self.check()

    def stop(self) -> None:
        """Drain the buffer, and end the thread. Leases that are still held run out by themselves."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        self.thread.join()
        with self.changed:
            self.check()
        self.counting.write_rest(self.pool)

    def check(self) -> None:
        if self.failure is not None:
            raise SettlerFailed(str(self.failure)) from self.failure

    def loop(self) -> None:
        try:
            while self.wait_for_work():
                self.renew_if_due()
                self.flush()
        except Exception as error:  # noqa: BLE001 - handed to the thread that adds
            with self.changed:
                self.failure = error
                self.changed.notify_all()

    def wait_for_work(self) -> bool:
        """Wait until it is time to write. False when nothing is left and nothing more will come."""
        with self.changed:
            self.changed.wait_for(self.urgent, timeout=self.limits.flush_seconds)
            return bool(self.buffer) or not self.stopping

    def urgent(self) -> bool:
        return len(self.buffer) >= self.limits.flush_at or self.stopping or bool(self.draining and self.buffer)

    def flush(self) -> None:
        with self.changed:
            batch = self.buffer[: self.limits.batch]
            self.fullness = len(self.buffer) / self.limits.capacity
            del self.buffer[: len(batch)]
            self.writing = batch
            since, self.oldest = self.oldest, self.clock()
            self.changed.notify_all()
        if batch:
            with spans.span("settle", items=len(batch)):
                self.write(batch, since)
        with self.changed:
            self.writing = []
            self.changed.notify_all()

    def write(self, batch: list[Settled], since: float) -> None:
        """Write a batch. `since` is when the first of its outcomes came."""
        vain_tries, counted = 0, self.counting.take()
        deadline = self.clock() + self.limits.outage_patience
        while True:
            begun = connected = self.clock()
            try:
                with transaction(self.pool) as connection:
                    connected = self.clock()
                    written = settling.write(connection, self.job_id, batch)
                    if self.record is not None and (succeeded := written.succeeded(batch)):
                        self.record(connection, succeeded)
                    # The first answer may have been lost with its connection, after the commit.
                    known = settling.settled_before(connection, written.lost) if vain_tries and written.lost else set()
                    self.counting.write(connection, counted if len(written.lost) < len(batch) else {})
            except (Unavailable, psycopg.OperationalError) as error:
                if self.clock() > deadline:
                    raise
                vain_tries += 1
                log.warning("settling %d items of job %d waits for the database: %s", len(batch), self.job_id, error)
                time.sleep(self.limits.retry_seconds)
                continue
            except Exception as error:
                self.counting.give_back(counted)
                if not settling.is_about_values(error):
                    raise
                self.write_apart(batch, error, since)
                return
            if len(written.lost) == len(batch) and not known:
                self.counting.give_back(counted)
            lost = self.take_note(written, known)
            now = self.clock()
            self.flushed(Flush(batch, lost, now - begun, connected - begun, now - since, self.fullness, vain_tries))
            return

    def write_apart(self, batch: list[Settled], error: Exception, since: float) -> None:
        """Bury what cannot be written, so that no handler's answer stops a worker. Settlements that cannot even be put
        into a statement are all buried at once; otherwise the batch is halved, down to the one that the database or the
        record refuses."""
        mended = settling.writable(batch)
        if any(now is not before for now, before in zip(mended, batch, strict=True)):
            self.write(mended, since)
        elif len(batch) > 1:
            half = len(batch) // 2
            self.write(batch[:half], since)
            self.write(batch[half:], since)
        elif batch[0].settlement.event is ItemEvent.SUCCEED:
            self.write([settling.unwritable(batch[0], error)], since)
        else:
            raise error

    def take_note(self, written: settling.Written, known: set[int]) -> int:
        """Note what a batch did to the job and to its leases, and return how many outcomes were dropped."""
        lost = [each for each in written.lost if each.item_id not in known]
        with self.changed:
            self.lost_count += len(lost)
            if written.job_status is not None:
                self.job_status = written.job_status
                self.open_items = written.open_items
        for each in lost:
            log.warning("lease %d of item %d is lost: its outcome is dropped", each.lease_term, each.item_id)
        return len(lost)

    def renew_if_due(self) -> None:
        """Renew the held leases when a third of their time has passed, so that two renewals may fail before they run
        out. An item that has been worked for too long is not renewed."""
        length = self.lease_seconds()
        with self.changed:
            now = self.clock()
            if not self.held or now - self.renewed_at < min(length, self.granted) / 3:
                return
            self.renewed_at = now
            hung = {item_id for item_id, begun in self.begun_at.items() if now - begun > self.item_timeout}
            if hung:
                self.give_back_unbegun()
            wanted = [lease for item_id, lease in self.held.items() if item_id not in hung]
        if not wanted:
            return
        try:
            with transaction(self.pool) as connection:
                kept = leases.renew(connection, wanted, length)
        except (Unavailable, psycopg.OperationalError) as error:
            log.warning("renewing %d leases of job %d failed: %s", len(wanted), self.job_id, error)
            return
        with self.changed:
            self.granted = min(length, self.lease_seconds())
            for lease in wanted:
                # Leases are compared by identity, because a later claim of the same item may be held by now.
                if lease.item_id not in kept and self.held.get(lease.item_id) is lease:
                    del self.held[lease.item_id]

    def give_back_unbegun(self) -> None:
        """Give back the held items that were not begun: nobody knows when their turn would come, if ever, and others
        may take them at once."""
        for lease in [lease for item_id, lease in self.held.items() if item_id not in self.begun_at]:
            del self.held[lease.item_id]
            self.buffer.append(Settled(lease.item_id, lease.lease_term, Settlement(ItemEvent.GIVE_BACK)))
