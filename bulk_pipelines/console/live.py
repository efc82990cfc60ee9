"""Jobs that open pages watch: one look at the database for all of them in this process, whatever their number."""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs import overview
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.overview import Holder
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.report import answer
from bulk_pipelines.imports.report.answer import Figures

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How old what a page shows may be: a look is shared by all pages that ask within this time."""
WATCHED_SECONDS = 10.0
"""For how long a job that no page asks for is still looked at."""
MOST_WATCHED = 2_000
REMEMBERED = 60


@dataclass(frozen=True)
class Seen:
    """What one look shows of a job."""

    job: Job
    figures: Figures | None = None
    """Of an import: its records."""
    holders: list[Holder] = field(default_factory=list)
    speed: float | None = None
    """Records or items a second over the last looks."""
    steps: tuple[int, ...] = ()
    """What was done between each two of the last looks."""

    @property
    def problems(self) -> int:
        """How many records or items somebody has to look at."""
        if self.figures is not None:
            return self.figures.counts.rejected + self.job.dlq_items
        return self.job.dlq_items + self.job.not_found_items

    @property
    def done(self) -> int:
        """How many records of an import were read, or how many items of another job are over."""
        if self.figures is not None:
            return self.figures.counts.read
        return self.job.total_items - self.job.open_items

    @property
    def total(self) -> int | None:
        """How many there are; None while nobody knows."""
        if self.figures is not None:
            return answer.total_of(self.job, self.figures)[0]
        return self.job.total_items if self.job.planned_at is not None else None

    @property
    def is_estimate(self) -> bool:
        return self.figures is not None and answer.total_of(self.job, self.figures)[1]

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1. What is not over is never shown as whole."""
        if self.job.finished:
            return 1.0
        return min(self.done / self.total, 0.99) if self.total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """An estimate by the speed of the last looks; None when there is none to make."""
        if self.job.finished or not self.speed or not self.total:
            return None
        return max(0.0, (self.total - self.done) / self.speed)


class Looks:
    """Looks at the jobs that pages ask for. It keeps nothing but what the last looks showed."""

    def __init__(self, pool: Engine) -> None:
        self.pool = pool
        self.wanted: dict[str, float] = {}
        self.seen: dict[str, Seen] = {}
        self.past: dict[str, deque[tuple[float, int]]] = {}
        self.counts: dict[str, dict[JobState, int]] = {}
        self.counts_wanted = float("-inf")
        self.looked_at = float("-inf")
        self.lock = asyncio.Lock()

    async def at(self, job_keys: Iterable[str], counted: bool = False) -> list[Seen]:
        """Return what is known of these jobs, at most two seconds old. Jobs that do not exist are left out. With
        `counted`, `unfinished` is as young."""
        now = time.monotonic()
        if counted:
            self.counts_wanted = now
        keys = list(job_keys)
        fresh = [key for key in keys if key not in self.wanted]
        for key in keys:
            self.wanted[key] = now
        async with self.lock:
            if fresh or time.monotonic() - self.looked_at >= LOOK_SECONDS:
                await self.look([key for key in fresh if key not in self.seen])
        return [self.seen[key] for key in keys if key in self.seen]

    def unfinished(self, owner: str | None) -> Counter[JobState]:
        """Return how many jobs were in each state that is not the last, of one owner or of all."""
        of = self.counts.values() if owner is None else [self.counts.get(owner, {})]
        return sum((Counter(each) for each in of), Counter())

    async def look(self, fresh: list[str]) -> None:
        """Look at everything that is wanted, when that is due, or else only at what nobody has asked for before."""
        now = time.monotonic()
        due = now - self.looked_at >= LOOK_SECONDS
        self.forget(now)
        keys = list(self.wanted) if due else fresh
        counted = due and now - self.counts_wanted <= WATCHED_SECONDS
        if not keys and not counted:
            return
        found, counts = await run_in_threadpool(seen_of, self.pool, keys, counted)
        if due:
            self.looked_at, self.counts = now, counts or self.counts
            self.seen = {key: each for key, each in self.seen.items() if key not in keys}
        for each in found:
            speed = self.speed_of(each, now)
            done = [count for _, count in self.past[each.job.job_key]]
            steps = tuple(max(0, after - before) for before, after in pairwise(done))
            self.seen[each.job.job_key] = replace(each, speed=speed, steps=steps)

    def expire(self) -> None:
        """Look anew with the next question: somebody has just changed something, and is to see it."""
        self.looked_at = float("-inf")

    def forget(self, now: float) -> None:
        """Forget what no page has asked for lately."""
        over = [key for key, at in self.wanted.items() if now - at > WATCHED_SECONDS]
        if len(self.wanted) - len(over) > MOST_WATCHED:
            over = list(self.wanted)[:-MOST_WATCHED]
        for key in over:
            self.wanted.pop(key, None)
            self.seen.pop(key, None)
            self.past.pop(key, None)

    def speed_of(self, each: Seen, now: float) -> float | None:
        """Return how quick the job was over the last looks, or over its whole time when there were no others."""
        past = self.past.setdefault(each.job.job_key, deque(maxlen=REMEMBERED))
        past.append((now, each.done))
        began, before = past[0]
        if now - began >= LOOK_SECONDS and each.done > before:
            return (each.done - before) / (now - began)
        return average(each)


def average(each: Seen) -> float | None:
    """Return how quick a job was from its start to its end, or to its last sign of life."""
    until = each.job.finished_at or each.job.heartbeat_at
    if each.job.started_at is None or until is None or not each.done:
        return None
    return each.done / max((until - each.job.started_at).total_seconds(), 0.1)


def seen_of(
    pool: Engine, job_keys: list[str], counted: bool
) -> tuple[list[Seen], dict[str, dict[JobState, int]] | None]:
    """Look at jobs, and count all that are not over if that is asked for."""
    with transaction(pool) as connection:
        there = overview.of_keys(connection, job_keys) if job_keys else []
        holding = {job.job_id: holders for job, holders in there}
        shown = shown_of(connection, [job for job, _ in there])
        counts = overview.unfinished(connection) if counted else None
    return [replace(each, holders=holding[each.job.job_id]) for each in shown], counts


def shown_of(connection: Connection, found: list[Job]) -> list[Seen]:
    """Return what people see of these jobs."""
    imports = [job.job_id for job in found if job.kind in KINDS]
    figures = answer.figures(connection, imports) if imports else {}
    shown = [Seen(job, figures.get(job.job_id, Figures(Counts())) if job.kind in KINDS else None) for job in found]
    return [replace(each, speed=average(each)) for each in shown]
