"""What is told of a job's life, and how the work of a job is marked as such."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from bulk_pipelines.telemetry import context, events
from bulk_pipelines.telemetry.context import Work

if TYPE_CHECKING:
    from bulk_pipelines.engine.jobs.jobs import Job


def about(job: "Job", **more: str | None) -> AbstractContextManager[Work]:
    """Say of the work in the block that it belongs to this job."""
    return context.about(
        job_id=job.job_key, kind=job.kind, request_id=job.request_id, trace_parent=job.trace_parent, **more
    )


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


def failed_fast() -> None:
    """Tell that a burial has failed the job that the present work belongs to."""
    events.info("job ended", state="FAILED", error="its kind fails with the first dead letter")
