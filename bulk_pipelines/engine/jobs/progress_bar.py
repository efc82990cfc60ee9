"""A progress bar on the terminal, for a command that watches a job which another process works."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from sqlalchemy import Engine

from bulk_pipelines.engine.jobs import watching
from bulk_pipelines.engine.jobs.watching import Sight, Work


@dataclass(frozen=True)
class Gauge:
    """What the bar shows of one look at a job, besides the job's state."""

    rows: int
    also: str
    """Something else that is counted, as a text: `12 errors`."""
    completed: float
    total: float | None
    """What `completed` comes to in the end; None while nobody knows."""


S = TypeVar("S", bound=Sight)


def work_and_watch(pool: Engine, work: Work, look: Callable[[], S], gauge: Callable[[S], Gauge]) -> S:
    """Have the job worked, and show a progress bar until it is over. A first Ctrl-C asks to cancel the job, a second
    one leaves it to itself."""
    seen = look()
    if seen.job.finished:
        return seen
    with bar() as shown:
        task = shown.add_task(seen.job.job_key, total=None, rows=0, rate=0.0, also="", state="")

        def show(each: S, seconds: float) -> None:
            found = gauge(each)
            shown.update(
                task,
                total=found.total,
                completed=found.completed,
                rows=found.rows,
                rate=found.rows / seconds if seconds > 0 else 0.0,
                also=found.also,
                state=each.job.status.lower().replace("_", " "),
            )

        return watching.work_and_watch(pool, seen, work, look, show)


def bar() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description} {task.fields[state]}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TextColumn("{task.fields[rate]:,.0f} rows/s"),
        TextColumn("{task.fields[also]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
    )
