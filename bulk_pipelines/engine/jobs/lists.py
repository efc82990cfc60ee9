"""Lists of jobs, a page at a time, and the words that the outside has for their states."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput

MOST = 1_000

WORDS = {
    JobState.SUBMITTED: "pending",
    JobState.RUNNING: "processing",
    JobState.PAUSED: "processing",
    JobState.COMPLETED: "completed",
    JobState.COMPLETED_WITH_ERRORS: "completed_with_errors",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}
"""The status of a job in the words of the outside. A paused job is processing, and says that it is paused."""


@dataclass(frozen=True)
class Wanted:
    """Which jobs are meant; a field that is None or empty does not matter, except the kinds."""

    kinds: Sequence[str]
    owner: str | None = None
    statuses: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None

    @property
    def states(self) -> list[str]:
        unknown = set(self.statuses) - set(WORDS.values())
        if unknown:
            raise InvalidInput("status", f"{min(unknown)!r} is none of {', '.join(dict.fromkeys(WORDS.values()))}")
        return [state for state, word in WORDS.items() if not self.statuses or word in self.statuses]


def page(connection: Connection, wanted: Wanted, size: int, before_id: int | None) -> list[Job]:
    """Return jobs, the newest first."""
    values = {
        "owner": wanted.owner,
        "kinds": list(wanted.kinds),
        "statuses": wanted.states,
        "since": wanted.since,
        "until": wanted.until,
        "before_id": before_id,
        "size": payload.size("size", size, MOST),
    }
    with connection.cursor(row_factory=class_row(Job)) as cursor:
        return cursor.execute(queries.text("jobs", "page_of_jobs"), values).fetchall()
