"""What is told of a job's life, and how the work of a job is marked as such."""

import hashlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from bulk_pipelines.telemetry import context, events, spans
from bulk_pipelines.telemetry.context import Work

if TYPE_CHECKING:
    from bulk_pipelines.engine.jobs.jobs import Job


def about(job: "Job", **more: str | None) -> AbstractContextManager[Work]:
    """Say of the work in the block that it belongs to this job. Within work that belongs to the job already, it goes on
    in the same span."""
    if context.present().job_id == job.job_key:
        return context.about(**more)
    return context.about(
        job_id=job.job_key, kind=job.kind, request_id=job.request_id, trace_parent=trace_parent(job), **more
    )


def trace_parent(job: "Job") -> str:
    """Return the trace context of the job itself. Its span's id follows from the job's key, so that all processes know
    it; a job that came without a trace has one that follows from the key as well."""
    digest = hashlib.sha256(job.job_key.encode()).hexdigest()
    trace_id, flags = digest[:32], "01"
    if job.trace_parent is not None:
        _, trace_id, _, flags = job.trace_parent.split("-")
    return f"00-{trace_id}-{digest[32:48]}-{flags}"


def submitted(job: "Job") -> None:
    with about(job):
        events.info("job submitted", owner=job.owner, origin=job.origin)


def started(job: "Job") -> None:
    with about(job):
        events.info("job started", attempt=job.attempts)


def moved(job: "Job") -> None:
    """Tell that the job has come into another state. Its transaction may still be rolled back: then this is told
    again."""
    with about(job):
        if not job.finished:
            events.info(f"job {job.status.lower()}")
            return
        begun = job.started_at or job.created_at
        events.info(
            "job ended",
            state=job.status.value,
            total_items=job.total_items,
            dead_letters=job.dlq_items,
            duration_ms=round((job.finished_at - begun).total_seconds() * 1000) if job.finished_at else None,
            error=job.last_error,
        )
        if job.finished_at is not None:
            about_job = {"state": job.status.value, "items": job.total_items, "owner": job.owner}
            spans.over("job", trace_parent(job), job.trace_parent, job.created_at, job.finished_at, **about_job)
