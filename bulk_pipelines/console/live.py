"""The states of jobs, as pages show them. When a page is opened, they are read from the database; from then on they
come from the look that all open pages share."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from bulk_pipelines.api.states import State
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs import overview
from bulk_pipelines.engine.jobs.jobs import Job, as_job
from bulk_pipelines.engine.jobs.overview import Holder
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.kind import known_kinds
from bulk_pipelines.imports.report import answer
from bulk_pipelines.imports.report.answer import Figures

Value = TypeVar("Value")


@dataclass(frozen=True)
class Seen:
    """What one look shows of a job."""

    job: Job
    figures: Figures | None = None
    """The records of an import; None for other jobs."""
    holders: list[Holder] = field(default_factory=list)
    speed: float | None = None
    """Records or items a second over the last looks."""
    paces: tuple[float, ...] = ()
    """The speed at each of the last looks."""
    rows: int | None = None
    """The rows that an export has written, if it is watched: then its speed is in rows. None for other jobs."""

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
        """How many records or items there are in all; None while nobody knows."""
        if self.figures is not None:
            return answer.total_of(self.job, self.figures)[0]
        return self.job.total_items if self.job.planned_at is not None else None

    @property
    def is_estimate(self) -> bool:
        return self.figures is not None and answer.total_of(self.job, self.figures)[1]

    @property
    def share(self) -> float:
        """How much of the job is done, from 0 to 1. A job that is not over is never shown as whole."""
        if self.job.finished:
            return 1.0
        return min(self.done / self.total, 0.99) if self.total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long the job will still take, by the speed of the last looks; None if that cannot be told."""
        if self.job.finished or not self.speed or not self.total or self.rows is not None:
            return None
        return max(0.0, (self.total - self.done) / self.speed)


class Fresh(Generic[Value]):
    """Something that is read for all open pages at once, however many they are: at most once in some seconds."""

    def __init__(self, read: Callable[[], Value], seconds: float) -> None:
        self.read = read
        self.seconds = seconds
        self.read_at = float("-inf")
        self.lock = asyncio.Lock()
        self.value: Value | None = None

    async def get(self) -> Value:
        async with self.lock:
            if self.value is None or time.monotonic() - self.read_at >= self.seconds:
                began = time.monotonic()
                self.value = await run_in_threadpool(self.read)
                self.read_at = began
            return self.value


def average(each: Seen) -> float | None:
    """Return how quick a job was, from its start to its end or its last sign of life."""
    until = each.job.finished_at or each.job.heartbeat_at
    if each.job.started_at is None or until is None or not each.done:
        return None
    return each.done / max((until - each.job.started_at).total_seconds(), 0.1)


def of_keys(pool: Engine, job_keys: Iterable[str]) -> list[Seen]:
    """Look at jobs now. Jobs that do not exist are left out."""
    with transaction(pool) as connection:
        there = overview.of_keys(connection, job_keys)
        shown = shown_of(connection, [job for job, _ in there])
    return [replace(seen, holders=holders) for seen, (_, holders) in zip(shown, there, strict=True)]


def of_state(state: State) -> Seen:
    """Return what the shared look has found of a job that pages show."""
    row = state.row
    job, counts = as_job(**row), row["counts"]
    figures = Figures(Counts(*counts[:7]), *counts[7:]) if counts is not None else None
    if figures is None and job.kind in known_kinds():
        figures = Figures(Counts())
    holders = [Holder(*each) for each in row["holders"] or ()]
    seen = Seen(job, figures, holders, paces=state.paces, rows=row["rows"] if figures is None else None)
    return replace(seen, speed=average(seen) if job.finished else state.paces[-1])


def shown_of(connection: Connection, found: list[Job]) -> list[Seen]:
    """Return what people see of these jobs."""
    kinds = known_kinds()
    imports = [job.job_id for job in found if job.kind in kinds]
    figures = answer.figures(connection, imports) if imports else {}
    shown = [Seen(job, figures.get(job.job_id, Figures(Counts())) if job.kind in kinds else None) for job in found]
    return [replace(each, speed=average(each)) for each in shown]
