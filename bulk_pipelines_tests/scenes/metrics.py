"""What Prometheus is told, and jobs to tell it of."""

from collections.abc import Iterable

from prometheus_client import Metric
from sqlalchemy import Engine

from bulk_pipelines.api.metrics.scraping import Scraper
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.engine_jobs import only, running

Found = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def value(found: Found, name: str, **labels: str) -> float | None:
    return found.get((name, tuple(sorted(labels.items()))))


def mixed(lease: Lease, tools: Tools) -> Outcome:
    number = lease.input["n"]
    if number % 10 == 0:
        return Bury("bad")
    if number % 10 == 1:
        return NotFound()
    if number % 10 == 2 and lease.attempt_count == 1:
        return RetryLater("later", after=0.0)
    return Done()


def worked(engine: Engine, kind: Kind, items: int) -> Job:
    kinds = only(kind)
    job = running(engine, items, kinds=kinds)
    with Worker(engine, kinds, job) as worker:
        drain.drain(worker)
    return engine_jobs.found(engine, job)


def named(families: Iterable[Metric]) -> Found:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def fresh(engine: Engine) -> Found:
    """Scrape anew, whatever is remembered."""
    return named(Scraper(engine, good_for=0).collect())
