"""Lists of jobs, the newest first, by pages: each page begins behind the last job of the one before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import kwargs_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs.jobs import Job, as_job
from bulk_pipelines.engine.states import JobState

MOST = 1_000


@dataclass(frozen=True)
class Wanted:
    """Which jobs are meant; a field that is None does not matter."""

    owner: str | None = None
    kinds: Sequence[str] | None = None
    states: Sequence[JobState] | None = None
    since: datetime | None = None
    until: datetime | None = None


def page(connection: Connection, wanted: Wanted, size: int = 100, before_id: int | None = None) -> list[Job]:
    """Return jobs whose numbers are below `before_id`, the newest first."""
    values = {
        "owner": wanted.owner,
        "kinds": None if wanted.kinds is None else list(wanted.kinds),
        "statuses": list(JobState if wanted.states is None else wanted.states),
        "since": wanted.since,
        "until": wanted.until,
        "before_id": before_id,
        "size": payload.size("size", size, MOST),
    }
    with connection.cursor(row_factory=kwargs_row(as_job)) as cursor:
        return cursor.execute(queries.text("jobs", "page_of_jobs"), values).fetchall()
