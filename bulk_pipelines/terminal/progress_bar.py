"""How far a job is, for a person who waits: a bar on a terminal, and elsewhere a line every ten seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from sqlalchemy import Engine

from bulk_pipelines.counted import counted as in_words
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.terminal import watching
from bulk_pipelines.terminal.watching import Sight, Work

LINE_SECONDS = 10.0
CANCELLING = "cancelling"
TIME_WIDTH = 7
"""A time is `0:00:00`. It is never cut."""
BESIDE_THE_BAR = 68
"""What the longest of the other columns need; a narrow terminal has a short bar."""


@dataclass(frozen=True)
class Gauge:
    """What is shown of one look at a job, besides the job's state."""

    rows: int
    also: str
    """Something else that is counted, as a text: `12 errors`."""
    completed: float
    total: float | None
    """What `completed` will be in the end; None while nobody knows."""
    seconds: float = 0.0
    """The seconds for which rows have been coming; 0 if only the watcher's own clock tells."""
    what: str = "row"
    more: str = ""
    """What several of them are called, if that is more than a word with an s."""

    @property
    def told(self) -> str:
        return in_words(self.rows, self.what, self.more)


@dataclass(frozen=True)
class Glance:
    """What a person is shown of one moment."""

    state: str
    gauge: Gauge
    rate: float


Show = Callable[[Glance], None]
S = TypeVar("S", bound=Sight)


def work_and_watch(
    pool: Engine, work: Work, look: Callable[[], S], gauge: Callable[[S], Gauge], *, quiet: bool = False
) -> S:
    """Have the job worked, and show how far it is until it is over. A first Ctrl-C asks to cancel the job, a second
    one leaves it to itself."""
    seen = look()
    if seen.job.finished:
        return seen
    with nothing() if quiet else shower(sys.stderr) as show:

        def shown(each: S, seconds: float, cancelling: bool) -> None:
            found = gauge(each)
            show(Glance(state_of(each, cancelling), found, rate(found, seconds)))

        return watching.work_and_watch(pool, seen, work, look, shown)


def rate(found: Gauge, seconds: float) -> float:
    """Return how many rows come in a second, as the summary will say it."""
    taken = found.seconds or seconds
    return found.rows / taken if taken > 0 else 0.0


def gauge_of_items(seen: Sight) -> Gauge:
    """Return what is shown of a job of which only the items are known."""
    job = seen.job
    done = job.total_items - job.open_items
    total = job.total_items if job.planned_at is not None and job.total_items else None
    return Gauge(done, f"{job.dlq_items:,} failed", done, total, what="item")


@contextmanager
def counted(what: str, total: int | None, *, more: str = "", quiet: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that adds to how much was done, and shows it: for work that is done in this process. `what` is
    the word for one, and `more` that for several."""
    done, began = 0, time.monotonic()
    with nothing() if quiet else shower(sys.stderr) as show:

        def add(count: int) -> None:
            nonlocal done
            done += count
            found = Gauge(done, "", done, total, what=what, more=more)
            show(Glance("working", found, rate(found, time.monotonic() - began)))

        yield add


class Steps(Protocol):
    def __call__(self, *, name: str, number: int, of: int, removed: int, total: int | None) -> None: ...


@contextmanager
def steps(*, quiet: bool) -> Iterator[Steps]:
    """Yield a function that shows which step of several is at work. Only a step that knows how much it has to remove
    has a share and an estimate: steps take very different times."""
    with nothing() if quiet else shower(sys.stderr) as show:
        began, at = time.monotonic(), 0

        def tell(*, name: str, number: int, of: int, removed: int, total: int | None) -> None:
            nonlocal began, at
            if number != at:
                began, at = time.monotonic(), number
            found = Gauge(removed, f"part {number} of {of}: {name}", removed, total, what="gone", more="gone")
            show(Glance("working", found, rate(found, time.monotonic() - began)))

        yield tell


def state_of(seen: Sight, cancelling: bool) -> str:
    """Say in a word what the job does. It is finishing when all its items are done, and what they could not know of
    each other is put right."""
    job = seen.job
    if cancelling and not job.finished:
        return CANCELLING
    if job.status is JobState.RUNNING and job.planned_at is not None and not job.open_items:
        return "finishing"
    return job.status.lower().replace("_", " ")


@contextmanager
def nothing() -> Iterator[Show]:
    yield lambda _: None


@contextmanager
def shower(output: TextIO) -> Iterator[Show]:
    """Yield the function that shows a glance."""
    console = Console(file=output)
    if not console.is_terminal:
        yield lines(output)
        return
    with bar(console) as progress:
        task = progress.add_task("", total=None, told="", rate=0.0, also="", state="")

        def show(glance: Glance) -> None:
            found = glance.gauge
            progress.update(
                task,
                total=found.total,
                completed=found.completed,
                told=found.told,
                rate=glance.rate,
                also=found.also,
                state=glance.state,
            )

        yield show


def lines(output: TextIO, clock: Callable[[], float] = time.monotonic) -> Show:
    """Return the function that prints a line every ten seconds, and none for a short job. It says at once that a job is
    being cancelled."""
    began = clock()
    next_line = began + LINE_SECONDS
    is_told = False

    def show(glance: Glance) -> None:
        nonlocal next_line, is_told
        if glance.state == CANCELLING and not is_told:
            is_told = True
            print("cancelling…", file=output, flush=True)
        if (now := clock()) < next_line:
            return
        next_line = now + LINE_SECONDS
        found = glance.gauge
        share = f", {found.completed / found.total:.0%}" if found.total else ""
        also = f", {found.also}" if found.also else ""
        rate = in_words(round(glance.rate), found.what, found.more)
        print(
            f"{now - began:.0f} s: {glance.state}{share}, {found.told}, {rate}/s{also}",
            file=output,
            flush=True,
        )

    return show


def bar(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=TIME_WIDTH)),
        BarColumn(bar_width=max(4, min(40, console.width - BESIDE_THE_BAR))),
        TimeRemainingColumn(table_column=Column(no_wrap=True, min_width=TIME_WIDTH)),
        TextColumn("{task.fields[state]}", table_column=Column(no_wrap=True, min_width=len(CANCELLING))),
        TextColumn("{task.fields[told]}", table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[rate]:,.0f}/s", table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[also]}", table_column=Column(no_wrap=True)),
        console=console,
    )
