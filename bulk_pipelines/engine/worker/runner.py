"""A worker: it takes items of one job a slice at a time, works them, and hands their outcomes to its settler."""

import os
import random as random_module
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import claims, leases
from bulk_pipelines.engine.items.claims import Claims
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.items.settling import Settled
from bulk_pipelines.engine.jobs import jobs, telling
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.outcomes import NotFound, Outcome, RetryLater, Unfinished
from bulk_pipelines.engine.states import ItemEvent, JobState
from bulk_pipelines.engine.worker import pressure, retry, slices, work
from bulk_pipelines.engine.worker.counting import Counting
from bulk_pipelines.engine.worker.measuring import Observer
from bulk_pipelines.engine.worker.pressure import PressureLimits
from bulk_pipelines.engine.worker.retry import SUCCEED, Random
from bulk_pipelines.engine.worker.settler import Settler
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.engine.worker.slices import Pace
from bulk_pipelines.engine.worker.standing import Standing
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.engine.worker.work import Slice, Tally, Worked
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.telemetry import spans

GOING_ON = (None, JobState.RUNNING)
"""The job states that allow work to go on, as the last settlement saw them; None means that nothing was settled yet."""

COUNTED = (RetryLater, NotFound)
"""Outcomes for which the item's earlier tries decide what becomes of it."""


def suspects(leases: Iterable[Lease]) -> bool:
    """Tell whether some of these items were in the hands of a worker that died."""
    return any(lease.death_count for lease in leases)


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


class Worker:
    """A worker of one job, to be used as a context: leaving it gives back the items that were not begun, and writes the
    outcomes of the others."""

    def __init__(
        self,
        pool: Engine,
        kinds: Mapping[str, Kind],
        job: Job,
        *,
        name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random = random_module.random,
        settler_limits: SettlerLimits | None = None,
    ) -> None:
        self.pool = pool
        self.kinds = kinds
        self.kind = kinds[job.kind].of_job(job)
        self.job = job
        self.name = name or worker_name()
        self.clock = clock
        self.random = random
        self.pressure_limits = PressureLimits()
        self.pace = Pace()
        self.waiting: deque[Lease] = deque()
        self.in_work: dict[int, Lease] = {}
        self.claims = Claims()
        self.failed_fast = False
        self.observer = Observer(pool, job.kind)
        counting = Counting(job.job_id, self.kind.count)
        with telling.about(job, worker=self.name):
            self.settler = Settler(
                pool,
                job.job_id,
                self.lease_seconds,
                self.kind.item_timeout,
                settler_limits or self.kind.settling,
                clock,
                self.kind.record,
                counting,
            )
        self.settler.flushed = self.observer.flushed
        self.standing = Standing(pool, job, clock, self.settler)
        self.tools = Tools(pool, job, self.name, self.lease_seconds, self.stopping, counting, self.following)
        self.executor = ThreadPoolExecutor(self.kind.concurrency, "item") if self.kind.concurrency > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run_once(self, until: float | None = None) -> Slice:
        """Work one slice. It is shorter when `until`, a time of the clock, comes first."""
        with spans.span("slice") as span:
            done = self.slice(until)
            span.set(claimed=done.claimed, items=done.tally.total, failed=done.tally.failed)
            if done.idle:
                span.drop()
        return done

    def slice(self, until: float | None) -> Slice:
        begun = self.clock()
        target = begun + self.kind.slices.target_seconds
        tally = Tally()
        claimed = self.take(tally)
        for lease, outcome in self.worked(target if until is None else min(target, until)):
            self.settle(lease, outcome, tally)
        seconds = self.clock() - begun
        self.adjust(tally, seconds)
        self.observer.worked(tally, seconds)
        return Slice(claimed, tally, seconds, len(self.waiting))

    def take(self, tally: Tally) -> int:
        """Get items for this slice: those left over from the last slice, if they may still be worked, or newly claimed
        ones. Return how many were claimed."""
        if self.failed_fast:
            self.settler.drain()  # writes the burial that fails the job, unless its lease was lost
            self.failed_fast = False
            self.tell_failure()
        if self.waiting:
            if self.standing.look() is not JobState.RUNNING:
                self.give_back()
            return 0
        claimed = self.claim()
        if claimed:
            self.standing.seen(JobState.RUNNING)  # a job in another state has nothing to claim
            if suspects(claimed):
                # A suspect may kill this process, so the outcomes of other items are written first.
                self.settler.drain()
            self.prepare(claimed, tally)
        return len(claimed)

    def tell_failure(self) -> None:
        """Tell of the job's end, which the settlement of a burial has brought about."""
        with transaction(self.pool) as connection:
            job = jobs.find(connection, self.job.job_key)
        if job.finished:
            telling.moved(job)

    def claim(self, *, beside: bool = False) -> list[Lease]:
        """Claim items, which wait for their turn then. No suspect is claimed beside an item that is in work. Nor is
        that item itself, whose lease may be lost, and which others may have given back."""
        size = slices.claim_size(self.kind.slices, self.pace.item_seconds.value, self.pace.pressure.level)
        over = self.claims.over(self.settler.unsettled())
        try:
            with transaction(self.pool) as connection:
                claimed = leases.claim(
                    connection,
                    self.job.job_id,
                    owner=self.name,
                    most=size,
                    lease_seconds=self.lease_seconds(),
                    over=over,
                )
                if beside and (suspects(claimed) or any(lease.item_id in self.in_work for lease in claimed)):
                    raise leases.ClaimUndone
        except leases.ClaimUndone:
            return []
        self.claims.drop(over)
        if claimed:
            self.settler.hold(claimed)
            self.waiting.extend(claimed)
            self.claims.add(claimed)
        return claimed

    def prepare(self, claimed: list[Lease], tally: Tally) -> None:
        """Let the kind prepare the claimed items. When that fails, so do all of them, each within its own number of
        tries."""
        if self.kind.prepare is None:
            return
        for lease in claimed:
            self.settler.begin(lease)
        try:
            self.kind.prepare(claimed, self.tools)
            self.settler.prepared(claimed)
        except Exception as error:  # noqa: BLE001 - a failed preparation is the outcome of its items
            outcome = retry.outcome_of(error)
            while self.waiting:
                self.settle(self.waiting.popleft(), outcome, tally)

    def worked(self, deadline: float) -> Iterator[Worked]:
        """Work the waiting items until the deadline, and yield each with its outcome."""

        def go_on(lease: Lease) -> bool:
            if self.clock() >= deadline or self.standing.asked.is_set() or self.called_off:
                return False
            self.in_work[lease.item_id] = lease
            return True

        if self.executor is None:
            return work.one_by_one(self.waiting, self.perform, go_on)
        concurrency = self.pace.pressure.concurrency(self.kind.concurrency)
        return work.side_by_side(self.waiting, self.perform, go_on, self.executor, concurrency)

    def following(self) -> Lease | None:
        """Return the item that is worked next while another is in work: the first one that waits, or else one that is
        claimed now. A suspect may kill this process, so none is claimed here, and nothing is claimed while one is in
        work or the worker is to stop."""
        stops = self.standing.asked.is_set() or self.standing.out_of_time or self.called_off
        if not (self.waiting or stops or suspects(self.in_work.values())):
            # The item in work is not to suffer from an error here. If it lasts, the worker's next claim meets it.
            with suppress(Unavailable, psycopg.Error):
                self.claim(beside=True)
        return self.waiting[0] if self.waiting else None

    def perform(self, lease: Lease) -> Outcome | None:
        return work.perform(self.kind, lease, self.tools) if self.settler.begin(lease) else None

    def settle(self, lease: Lease, outcome: Outcome | None, tally: Tally) -> None:
        """Hand an item's outcome to the settler. Without an outcome the lease is lost, and the item is forgotten."""
        self.in_work.pop(lease.item_id, None)
        if not self.waiting:
            self.tools.end_begun()  # of an item that was given back or lost, or whose handler did not come so far
        got_on = self.tools.ended(lease)
        if outcome is None:
            self.settler.forget(lease)
            return
        tally.count(outcome)
        spacing = self.pace.pressure.spacing
        tries = self.tools.tries(lease) if got_on and isinstance(outcome, COUNTED) else lease.tries
        settlement = retry.decide(self.kind.retry, outcome, tries, self.random, spacing)
        if self.kind.fail_fast and settlement.event is ItemEvent.BURY:
            self.failed_fast = True
        if settlement.event is not SUCCEED:
            self.observer.decided(lease, settlement)
        self.settler.add(Settled(lease.item_id, lease.lease_term, settlement))

    def adjust(self, tally: Tally, seconds: float) -> None:
        if not tally.total:
            return
        self.pace = Pace(
            self.pace.item_seconds.observe(seconds / tally.total, tally.total),
            pressure.after_slice(self.pressure_limits, self.pace.pressure, tally.total, tally.throttled, tally.failed),
        )

    def lease_seconds(self) -> float:
        """Return how long leases are to last, by how long one item takes. With several items at once that is longer
        than what one item adds to a slice."""
        per_item = self.pace.item_seconds.value
        return slices.lease_seconds(self.kind.slices, None if per_item is None else per_item * self.kind.concurrency)

    @property
    def called_off(self) -> bool:
        """Whether no more items are to be begun, as far as the worker knows without asking: because of a burial of its
        own, or by what the last settlement saw."""
        return self.failed_fast or self.settler.job_status not in GOING_ON

    def stopping(self) -> bool:
        """Whether a long item is to stop; handlers ask this through their tools."""
        return self.standing.stopping(got_on=bool(self.tools.checkpointed))

    def stop(self) -> None:
        """Ask the worker to end at the next item. Safe to call from a signal handler or another thread."""
        self.standing.asked.set()

    def give_back(self) -> None:
        """Give the items that were claimed and not begun back to whoever comes next."""
        while self.waiting:
            self.settle(self.waiting.popleft(), Unfinished(), Tally())

    def close(self) -> None:
        """Give back what was not begun, write all outcomes, and delete the rows of the claims that are over."""
        self.standing.asked.set()
        try:
            self.give_back()
        finally:
            if self.executor is not None:
                self.executor.shutdown(cancel_futures=True)
        # These items were begun and interrupted. What was done with them is unknown, so this costs an attempt; others
        # may take them at once.
        for lease in list(self.in_work.values()):
            self.settle(lease, RetryLater("its worker was stopped in the middle", after=0.0), Tally())
        self.settler.stop()
        self.observer.measures.write()
        if over := self.claims.over(self.settler.unsettled()):
            with suppress(Unavailable, psycopg.OperationalError), transaction(self.pool) as connection:
                claims.forget(connection, over)
