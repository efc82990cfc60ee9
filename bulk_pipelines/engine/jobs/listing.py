"""Lists of jobs of all kinds, for people and programs that look for one."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput

MOST = 1_000


@dataclass(frozen=True)
class Wanted:
    """Which jobs are meant; a field that is None does not matter."""

    owner: str | None = None
    kinds: Sequence[str] | None = None
    statuses: Sequence[str] | None = None
    origin: str | None = None
    text: str | None = None
    """Something that the key, the kind, the request, the error or the name of a file has in it."""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Run:
    """A run of Dagster that took a job up."""

    dagster_run_id: str
    taken_up_at: datetime
    terminated_at: datetime | None


def page(connection: Connection, wanted: Wanted, size: int, before_id: int | None = None) -> list[Job]:
    """Return jobs, the newest first."""
    values = asdict(wanted) | {
        "kinds": None if wanted.kinds is None else list(wanted.kinds),
        "statuses": states(wanted.statuses),
        "text": None if wanted.text is None else payload.text("text", wanted.text),
        "before_id": before_id,
        "size": payload.size("limit", size, MOST),
    }
    with connection.cursor(row_factory=class_row(Job)) as cursor:
        return cursor.execute(queries.text("job_lists", "jobs"), values).fetchall()


def states(named: Sequence[str] | None) -> list[str]:
    """Return the states that are named, in any case of letters; all of them if none is."""
    found = [each.upper() for each in named or JobState]
    unknown = sorted(set(found) - set(JobState))
    if unknown:
        raise InvalidInput("state", f"{unknown[0]!r} is none of {', '.join(JobState)}")
    return found


def runs(connection: Connection, job: Job) -> list[Run]:
    """Return the runs of a job, the first one first."""
    with connection.cursor(row_factory=class_row(Run)) as cursor:
        return cursor.execute(queries.text("job_lists", "runs"), {"job_id": job.job_id}).fetchall()
