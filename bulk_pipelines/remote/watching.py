"""A job that a server works is watched with the same bar as a job that is worked here."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from bulk_pipelines import output
from bulk_pipelines.client import Distribution, Export, Import, Job
from bulk_pipelines.client.following import Followed, News
from bulk_pipelines.counted import counted
from bulk_pipelines.errors import Conflict
from bulk_pipelines.terminal import progress_bar
from bulk_pipelines.terminal.progress_bar import Gauge, Glance, Show

F = TypeVar("F", bound=Followed)


@dataclass
class Screen:
    """What is shown while a file is sent, and while its job is worked."""

    show: Show
    began: float = field(default_factory=time.monotonic)

    def sent(self, far: int, total: int | None) -> None:
        self.show(Glance("sending", Gauge(0, f"{far / (1 << 20):,.1f} MiB", far, total), 0.0))

    def watch(
        self,
        seen: F,
        news: News,
        look: Callable[[], F],
        cancel: Callable[[], object],
        gauge: Callable[[F], tuple[str, Gauge]],
    ) -> F:
        """Show how far a job is until it is over, and return the last look. A first Ctrl-C asks to cancel the job, a
        second one leaves it to itself."""
        began = time.monotonic()
        cancelling = False
        found = Gauge(0, "", 0, None)
        with news:
            while True:
                try:
                    state, found = gauge(seen)
                    rate = found.rows / max(time.monotonic() - began, 0.001)
                    self.show(Glance(progress_bar.CANCELLING if cancelling and not seen.over else state, found, rate))
                    if seen.over:
                        return seen
                    news.wait()
                    seen = look()
                except KeyboardInterrupt:
                    if cancelling:
                        raise
                    cancelling = True
                    self.show(Glance(progress_bar.CANCELLING, found, 0.0))
                    with suppress(Conflict):  # the job may have ended in the meantime
                        cancel()


@contextmanager
def screen() -> Iterator[Screen]:
    quiet = output.chosen(output.QUIET)
    with progress_bar.nothing() if quiet else progress_bar.shower(sys.stderr) as show:
        yield Screen(show)


def refuse_paused(key: str, *, paused: bool) -> None:
    """Raise `Conflict` if the job is paused: waiting for it could take for ever."""
    if paused:
        raise Conflict(f"job {key} is paused: bulk resume {key} goes on with it")


def gauge_of_import(seen: Import) -> tuple[str, Gauge]:
    refuse_paused(seen.job_id, paused=seen.paused)
    done = seen.processed_records
    errors = counted(seen.error_records, "error")
    return seen.status.replace("_", " "), Gauge(done, errors, done, seen.total_records)


def gauge_of_job(seen: Job) -> tuple[str, Gauge]:
    refuse_paused(seen.job_id, paused=seen.queue_state == "PAUSED")
    total = seen.total_items if seen.total_is_final else None
    state = seen.status.lower().replace("_", " ")
    return state, Gauge(seen.processed_items, f"{seen.failed_items:,} failed", seen.processed_items, total, what="item")


def gauge_of_export(seen: Export) -> tuple[str, Gauge]:
    refuse_paused(seen.job_id, paused=seen.paused)
    done = seen.record_count
    return seen.status, Gauge(done, counted(seen.bytes, "byte"), done, done if seen.good else None)


def gauge_of_distribution(seen: Distribution) -> tuple[str, Gauge]:
    refuse_paused(seen.job_id, paused=seen.status == "PAUSED")
    done = seen.done + seen.failed
    return seen.status.lower().replace("_", " "), Gauge(done, f"{seen.failed:,} failed", done, seen.total, what="file")
