"""What other programs are told of an import: the fields and words that they know imports by."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.words import WORDS
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.kind import known_kinds
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.load.rejects import Rejected
from bulk_pipelines.imports.request import kind_name

FIRST_ERRORS = 20


@dataclass(frozen=True)
class Figures:
    """How far an import is."""

    counts: Counts
    bytes_read: int = 0
    bytes_in_all: int = 0

    @property
    def good(self) -> int:
        """How many records were loaded, or were found good."""
        return self.counts.loaded + self.counts.valid + self.counts.superseded


def kinds_of(resource: str | None) -> list[str]:
    """Return the kinds of job that imports of a resource are; of all resources, if none is named."""
    kinds = known_kinds()
    return list(kinds) if resource is None else [each for each in kinds if each == kind_name(resource)]


def figures(connection: Connection, job_ids: Iterable[int]) -> dict[int, Figures]:
    """Return how far these imports are, by their ids."""
    rows = connection.execute(queries.text("import_lists", "counts_of"), {"job_ids": list(job_ids)})
    return {row[0]: Figures(Counts(*row[1:10]), row[10], row[11]) for row in rows}


def as_json(job: Job, found: Figures) -> dict[str, Any]:
    """Return the import as other programs are shown it."""
    counts = found.counts
    total, estimated = total_of(job, found)
    return {
        "job_id": job.job_key,
        "idempotency_key": job.idempotency_key,
        "resource_type": job.params["resource"],
        "mode": job.params["mode"],
        "status": WORDS[job.status],
        "paused": job.status is JobState.PAUSED,
        "total_records": total,
        "total_is_estimate": estimated,
        "processed_records": counts.read,
        "successful_records": found.good,
        "error_records": counts.rejected,
        "inserted_records": counts.inserted,
        "updated_records": counts.updated,
        "unchanged_records": counts.unchanged,
        "superseded_records": counts.superseded,
        "unprocessed_records": counts.unprocessed,
        "failure_reason": job.last_error,
        "owner": job.owner,
        "file_id": job.file_id,
        "request_id": job.request_id,
        "replay_of": job.params.get("replay_of"),
        "started_at": job.started_at,
        "completed_at": job.finished_at,
        "created_at": job.created_at,
    }


def total_of(job: Job, found: Figures) -> tuple[int | None, bool]:
    """Return how many records there are in all, and whether that is an estimate. Nobody knows before the first record
    is read; until the last one is, it is estimated from the bytes."""
    counts = found.counts
    if job.finished:
        return counts.read + counts.unprocessed, False
    if not counts.read or not found.bytes_read:
        return None, True
    share = min(found.bytes_read / found.bytes_in_all, 1.0) if found.bytes_in_all else 1.0
    return max(counts.read, round(counts.read / share)), True


def errors(connection: Connection, job_id: int, after_line: int = 0, size: int = FIRST_ERRORS) -> list[dict[str, Any]]:
    """Return rejected records in the order of the file, each with all its reasons."""
    return [error_of(each) for each in rejects.page(connection, job_id, after_line, size)]


def error_of(each: Rejected) -> dict[str, Any]:
    """Return a reject: its first reason in the words of the outside, and all of them in ours. `row` is the line of the
    file; it stands there under both names."""
    first = each.reasons[0]
    return {
        "row": each.line,
        "line": each.line,
        "field": first.get("field"),
        "value": first.get("value"),
        "reason": first["code"],
        "reasons": each.reasons,
    }
