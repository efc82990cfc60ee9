"""The API's answers as Python values. Fields that a newer server adds are left out."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

FINISHED_JOBS = ("COMPLETED", "COMPLETED_WITH_ERRORS", "FAILED", "CANCELLED")


class Answer:
    """An answer that is a JSON object."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        known = {field.name: field.type for field in fields(cls)}  # type: ignore[arg-type]  # all of them are dataclasses
        values = {name: value for name, value in told.items() if name in known}
        for name, value in values.items():
            if "datetime" in str(known[name]) and isinstance(value, str):
                values[name] = datetime.fromisoformat(value)
        return cls(**values)


@dataclass(frozen=True)
class RecordError(Answer):
    """A record that was rejected: where it begins in the file, and all that is wrong with it."""

    line: int
    field: str | None
    value: str | None
    reason: str
    reasons: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Transfer(Answer):
    """The fields that imports and exports have in common."""

    job_id: str
    resource_type: str
    status: str
    """pending, processing, completed, completed_with_errors, failed or cancelled."""
    paused: bool
    failure_reason: str | None
    owner: str
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    idempotency_key: str | None = None
    request_id: str | None = None

    @property
    def over(self) -> bool:
        return self.status not in ("pending", "processing")

    @property
    def good(self) -> bool:
        """Whether the job ended well; some records of an import may have been rejected."""
        return self.status in ("completed", "completed_with_errors")


@dataclass(frozen=True, kw_only=True)
class Import(Transfer):
    """An import."""

    mode: str
    total_records: int | None
    total_is_estimate: bool
    processed_records: int
    successful_records: int
    error_records: int
    inserted_records: int
    updated_records: int
    unchanged_records: int
    superseded_records: int
    unprocessed_records: int
    replay_of: str | None = None


@dataclass(frozen=True)
class Undone(Answer):
    """How many rows of an import were removed, or could be."""

    removed: int
    changed: int
    """Rows that were changed since, and stay."""
    referred_to: int
    """Rows that others refer to, and stay."""
    dry_run: bool


@dataclass(frozen=True)
class Preview(Answer):
    """How a file would be read. If it cannot be imported as it was asked, `problem` says why, and `remedy` has the
    options that are needed; the rest then is what is found with them."""

    source: str
    resource: str
    format: str | None
    recognised: dict[str, str]
    columns: list[dict[str, Any]]
    """Each `column`, and the `field`, `constant` or `expression` that it gets its values from."""
    left_out: list[str]
    without: list[str]
    records: list[dict[str, str | None]]
    judged: int
    rejected: int
    reasons: dict[str, int]
    rejects: list[dict[str, Any]]
    files: list[str]
    problem: str | None
    remedy: dict[str, Any]
    reading: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Export(Transfer):
    """An export."""

    format: str
    where: list[str]
    fields: list[str]
    order: list[str]
    compression: str
    record_count: int
    """How many rows are written so far."""
    bytes: int
    sha256: str | None
    download_url: str | None
    file_path: str | None = None


@dataclass(frozen=True)
class Distribution(Answer):
    """A job that makes, or finds, one file for each of its inputs."""

    jobId: str  # noqa: N815 - as the API calls it
    status: str
    total: int
    pending: int
    running: int
    done: int
    failed: int
    filesGenerated: int  # noqa: N815
    filesReused: int  # noqa: N815
    errorMessage: str | None  # noqa: N815
    dataContent: list[dict[str, Any]]  # noqa: N815
    """A page of its files."""
    next: str | None

    @property
    def job_id(self) -> str:
        return self.jobId

    @property
    def over(self) -> bool:
        return self.status in FINISHED_JOBS

    @property
    def good(self) -> bool:
        return self.status == "COMPLETED"


@dataclass(frozen=True)
class Job(Answer):
    """A job of any kind."""

    jobId: str  # noqa: N815 - as the API calls it
    job_type: str
    user_id: str
    origin: str
    queue_state: str
    """QUEUED, RUNNING, PAUSED, DONE or FAILED."""
    status: str
    total_items: int
    total_is_final: bool
    processed_items: int
    failed_items: int
    items: dict[str, int]
    attempts: int
    last_error: str | None
    last_heartbeat: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    recipe: str | None = None
    request_id: str | None = None
    idempotency_key: str | None = None

    @property
    def job_id(self) -> str:
        return self.jobId

    @property
    def over(self) -> bool:
        return self.status in FINISHED_JOBS

    @property
    def good(self) -> bool:
        """Whether the job ended well; some of its items may have failed."""
        return self.status in ("COMPLETED", "COMPLETED_WITH_ERRORS")


@dataclass(frozen=True)
class Item(Answer):
    """An item of a job, with a summary of its input."""

    id: str
    item_key: str
    job_id: str
    user_id: str
    job_type: str
    status: str
    """PENDING, PROCESSING, DONE, ERROR, NOT_FOUND or SKIPPED."""
    state: str
    attempts: int
    due_at: datetime | None
    locked_by: str | None
    locked_at: datetime | None
    error_class: str | None
    last_error: str | None
    updated_at: datetime
    inputTitle: str | None  # noqa: N815
    inputBrand: str | None  # noqa: N815
    inputSku: str | None  # noqa: N815
    inputSummary: str | None = None  # noqa: N815
    result: dict[str, str | None] | None = None
    """The item's row of the grid; None if the job has no grid, and in the list of the items of all jobs."""
