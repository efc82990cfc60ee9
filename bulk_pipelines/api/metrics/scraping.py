"""A scrape: what the database says now, and what all processes have ever measured, in Prometheus's form.

The answer is made from the database alone, so every API process gives the same one, and none of them keeps any state.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psycopg
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from sqlalchemy import Engine

from bulk_pipelines.api.metrics import catalogue
from bulk_pipelines.api.metrics.looks import LOOKS, Absent, Sample
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.measures import ends, recording
from bulk_pipelines.engine.measures.catalogue import KEPT, Form, Metric
from bulk_pipelines.engine.measures.recording import Measures, Sum
from bulk_pipelines.errors import Unavailable

log = logging.getLogger(__name__)

GOOD_FOR_SECONDS = 5.0
"""One look serves everybody who asks within this time."""
MOST_SECONDS = 5
"""The longest time that one statement of a scrape may take."""
PATIENCE = 30.0
"""How long somebody waits for the first look of the process."""
T = TypeVar("T")
BY_NAME = {each.name: each for each in KEPT}


@dataclass(frozen=True)
class Answer:
    """What was found, and when."""

    families: Sequence[Family]
    made_at: float


class Scraper(Collector):
    """Looks at most once in some seconds, however many ask. Whoever asks during a look gets the answer of the look
    before it, because a look may take long, and the threads are needed for other requests."""

    def __init__(
        self,
        pool: Engine,
        good_for: float = GOOD_FOR_SECONDS,
        most_seconds: float = MOST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pool = pool
        self.good_for = good_for
        self.most_seconds = most_seconds
        self.clock = clock
        self.lock = threading.Lock()
        self.answer: Answer | None = None
        self.looks = 0
        """How many looks there have been."""

    def collect(self) -> Iterator[Family]:
        answer = self.present()
        yield from answer.families
        yield from families([(catalogue.AGE, (), self.clock() - answer.made_at)])

    def describe(self) -> Iterable[Family]:
        return []

    def present(self) -> Answer:
        known = self.answer
        if known is not None and self.clock() - known.made_at < self.good_for:
            return known
        if not self.lock.acquire(timeout=PATIENCE if known is None else 0):
            if known is None:
                raise Unavailable("the metrics are still being looked up for the first time")
            return known
        try:
            if self.answer is None or self.answer is known:
                self.answer = Answer(self.look(), self.clock())
            return self.answer
        finally:
            self.lock.release()

    def look(self) -> list[Family]:
        self.looks += 1
        recording.of(self.pool).write()
        try:
            with transaction(self.pool) as connection:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                connection.execute(f"SET LOCAL statement_timeout = {round(self.most_seconds * 1000)}".encode())
                return self.found(connection)
        except (Unavailable, psycopg.Error) as error:
            log.warning("the database did not answer a scrape: %s", error)
            down: list[Sample] = [(catalogue.DATABASE_UP, (), 0.0)]
            return families(down + [(catalogue.PART_UP, (name,), 0.0) for name in (*LOOKS, "measures")])

    def found(self, connection: Connection) -> list[Family]:
        samples: list[Sample] = [(catalogue.DATABASE_UP, (), 1.0)]
        for name, look in LOOKS.items():
            part = looked(connection, name, look)
            samples += part or []
            samples.append((catalogue.PART_UP, (name,), float(part is not None)))
        kept = looked(connection, "measures", measured)
        samples.append((catalogue.PART_UP, ("measures",), float(kept is not None)))
        return [*families(samples), *(kept or [])]


def looked(connection: Connection, name: str, look: Callable[[Connection], Iterator[T]]) -> list[T] | None:
    """Return what a look finds; None when it fails."""
    try:
        with connection.transaction():
            return list(look(connection))
    except Absent:
        return None
    except psycopg.Error as error:
        if connection.broken or connection.closed:
            raise
        log.warning("the metrics of %s could not be looked up: %s", name, error)
        return None


def families(samples: Iterable[Sample]) -> list[Family]:
    """Return gauges and counters by their names. Samples of one series are added up."""
    grouped: dict[Metric, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    for metric, labels, value in samples:
        grouped[metric][labels] += value
    found: list[Family] = []
    for metric, series in grouped.items():
        form = CounterMetricFamily if metric.form is Form.COUNTER else GaugeMetricFamily
        family = form(metric.name, plain(metric.doc), labels=metric.labels)
        for labels, value in series.items():
            family.add_metric(labels, value)
        found.append(family)
    return found


def measured(connection: Connection) -> Iterator[Family]:
    """Yield what processes have measured. The ends of jobs that still wait in the outbox are added, because they are
    measured only when they leave it."""
    pending = Measures(None)
    for (data,) in connection.execute(queries.text("metrics", "ends_in_outbox")):
        ends.note(pending, data)
    series: dict[Metric, dict[tuple[str, ...], Sum]] = {each: {} for each in KEPT}
    for name, labels, total, buckets in connection.execute(queries.text("measures", "measures")):
        metric = BY_NAME.get(name)
        if metric is not None and len(labels) == len(metric.labels) and len(buckets) == size(metric):
            series[metric][tuple(labels)] = Sum(total, list(buckets))
    for (metric, labels), more in pending.sums.items():
        known = series[metric].setdefault(labels, Sum(0.0, [0] * size(metric)))
        known.add(more)
    for metric, found in series.items():
        if metric.form is Form.HISTOGRAM:
            yield histogram(metric, found)
        else:
            yield from families((metric, labels, each.total) for labels, each in found.items())


def size(metric: Metric) -> int:
    return len(metric.bounds) + 1 if metric.form is Form.HISTOGRAM else 0


def histogram(metric: Metric, found: dict[tuple[str, ...], Sum]) -> Family:
    family = HistogramMetricFamily(metric.name, plain(metric.doc), labels=metric.labels)
    for labels, each in found.items():
        buckets, count = [], 0
        for bound, more in zip((*metric.bounds, float("inf")), each.buckets, strict=True):
            count += more
            buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), float(count)))
        family.add_metric(labels, buckets, each.total)
    return family


def plain(doc: str) -> str:
    return doc.replace("`", "")
