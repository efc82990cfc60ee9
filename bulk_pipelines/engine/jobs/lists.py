"""Lists of jobs of all kinds, for people who look for one of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs.jobs import ORIGINS, Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput

MOST = 1_000
STEPS = 20


@dataclass(frozen=True)
class Wanted:
    """Which jobs are meant; a field that is None does not matter."""

    owner: str | None = None
    kind: str | None = None
    """How the kind's name begins: `import_` stands for all imports."""
    statuses: Sequence[str] | None = None
    origin: str | None = None
    text: str | None = None
    """A part of the key, the kind, an error, or the name of a file."""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Holder:
    """A worker that holds items of a job, and how many it took."""

    worker: str
    items: int


def page(connection: Connection, wanted: Wanted, size: int = 50, before_id: int | None = None) -> list[Job]:
    """Return jobs, the newest first, from behind `before_id` on."""
    for state in wanted.statuses or ():
        if state not in JobState.__members__:
            raise InvalidInput("state", f"{state!r} is none of {', '.join(JobState)}")
    if wanted.origin is not None and wanted.origin not in ORIGINS:
        raise InvalidInput("origin", f"{wanted.origin!r} is none of {', '.join(ORIGINS)}")
    values = asdict(wanted) | {
        "statuses": None if wanted.statuses is None else list(wanted.statuses),
        "text": None if wanted.text is None else payload.text("text", wanted.text),
        "size": payload.size("size", size, MOST),
        "before_id": before_id,
    }
    with connection.cursor(row_factory=class_row(Job)) as cursor:
        return cursor.execute(queries.text("lists", "jobs"), values).fetchall()


def of_keys(connection: Connection, job_keys: Iterable[str]) -> list[Job]:
    with connection.cursor(row_factory=class_row(Job)) as cursor:
        return cursor.execute(queries.text("lists", "jobs_of_keys"), {"job_keys": list(job_keys)}).fetchall()


def holders(connection: Connection, job_ids: Iterable[int]) -> dict[int, list[Holder]]:
    """Return who holds items of these jobs."""
    found: dict[int, list[Holder]] = defaultdict(list)
    rows = connection.execute(queries.text("lists", "holders"), {"job_ids": list(job_ids)})
    for job_id, worker, items in rows:
        found[job_id].append(Holder(worker, items))
    return found


def unfinished(connection: Connection) -> dict[str, dict[JobState, int]]:
    """Return how many jobs of each owner are in each state that is not the last."""
    found: dict[str, dict[JobState, int]] = defaultdict(dict)
    for owner, state, count in connection.execute(queries.text("lists", "unfinished")):
        found[owner][JobState(state)] = count
    return found


def speeds(connection: Connection, job_ids: Iterable[int]) -> dict[int, list[int]]:
    """Return the rows of each job in twenty steps of the time that it was at work."""
    found: dict[int, list[int]] = {}
    for job_id, step, rows in connection.execute(queries.text("lists", "speeds"), {"job_ids": list(job_ids)}):
        found.setdefault(job_id, [0] * STEPS)[step] = rows
    return found
