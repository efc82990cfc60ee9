"""What the end of a job adds to the counters. The event that notes the end has all that is needed for it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from bulk_pipelines.engine.measures.catalogue import INGEST_SECONDS, JOB_SECONDS, JOB_WAIT, JOBS_ENDED, Metric
from bulk_pipelines.engine.measures.recording import Measures


def measured(data: Mapping[str, Any]) -> Iterator[tuple[Metric, float]]:
    """Yield what was observed of a job that ended; its kind is the label of all of it."""
    created, started, planned, finished = (
        None if data.get(name) is None else datetime.fromisoformat(data[name])
        for name in ("created_at", "started_at", "planned_at", "finished_at")
    )
    if created and started:
        yield JOB_WAIT, max((started - created).total_seconds(), 0.0)
    if started and planned:
        yield INGEST_SECONDS, max((planned - started).total_seconds(), 0.0)
    if started and finished:
        yield JOB_SECONDS, max((finished - started).total_seconds(), 0.0)


def note(measures: Measures, data: Mapping[str, Any]) -> None:
    kind = str(data["kind"])
    for state in ("completed", "failed", str(data["state"]).lower()):
        measures.count(JOBS_ENDED, kind, state, by=0)
    measures.count(JOBS_ENDED, kind, str(data["state"]).lower())
    for metric, seconds in measured(data):
        measures.observe(metric, seconds, kind)
