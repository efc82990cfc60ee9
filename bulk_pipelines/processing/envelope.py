"""The envelope of an item: the ids by which logs, results and providers know it. It holds ids, never data."""

import hashlib
from dataclasses import dataclass
from typing import Any

from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs.jobs import Job

VERSION = "1.0"


@dataclass(frozen=True)
class Envelope:
    """One try at one item."""

    job_key: str
    type: str
    created_at: str
    attempt: int
    max_attempts: int
    job_id: int
    item_id: int
    item_key: str
    trace_id: str
    span_id: str

    def as_json(self) -> dict[str, Any]:
        return {
            "header": {
                "job_id": self.job_key,
                "type": self.type,
                "version": VERSION,
                "created_at": self.created_at,
                "attempt": self.attempt,
                "max_attempts": self.max_attempts,
            },
            "body": {"project_id": self.job_id, "task_id": self.item_id, "dataset_entry_id": self.item_key},
            "tracing": {"trace_id": self.trace_id, "span_id": self.span_id},
        }

    @property
    def trace_parent(self) -> str:
        """The W3C header `traceparent` that providers get, so that their logs can be joined with ours."""
        return f"00-{self.trace_id}-{self.span_id}-01"


def of(job: Job, lease: Lease, recipe_type: str, max_attempts: int) -> Envelope:
    """Return the envelope of a claimed item. Its trace is that of the request that made the job, or one that belongs to
    the job; its span belongs to the item's term."""
    digest = hashlib.sha256(f"{job.job_key}".encode()).hexdigest()
    trace = job.trace_parent.split("-")[1] if job.trace_parent else digest[:32]
    span = hashlib.sha256(f"{job.job_key}/{lease.item_id}/{lease.lease_term}".encode()).hexdigest()[:16]
    return Envelope(
        job.job_key,
        f"entity.{recipe_type}",
        job.created_at.isoformat(),
        lease.attempt_count,
        max_attempts,
        job.job_id,
        lease.item_id,
        lease.item_key,
        trace,
        span,
    )
