"""Views of many jobs at once. One query reads a view, however many jobs it shows."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row, dict_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs.jobs import Job, as_job
from bulk_pipelines.engine.states import JobState

STEPS = 20


@dataclass(frozen=True)
class Holder:
    """A worker that holds items of a job, and how many it took."""

    worker: str
    items: int


@dataclass(frozen=True)
class Working:
    """A worker at a job."""

    worker: str
    job_key: str
    kind: str
    owner: str
    dagster_run_id: str | None
    items: int
    expired: int
    """How many of the worker's items no lease covers any more."""
    since: datetime
    seconds_left: float
    """The seconds until the worker's last lease runs out."""


def workers(connection: Connection, owner: str | None) -> list[Working]:
    """Return who holds what now, of one owner's jobs or of all."""
    with connection.cursor(row_factory=class_row(Working)) as cursor:
        return cursor.execute(queries.text("overview", "workers"), {"owner": owner}).fetchall()


def of_keys(connection: Connection, job_keys: Iterable[str]) -> list[tuple[Job, list[Holder]]]:
    """Return the jobs with these keys, each with those who hold items of it."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(queries.text("overview", "jobs_of_keys"), {"job_keys": list(job_keys)}).fetchall()
    return [(as_job(**row), [Holder(*each) for each in row["holders"] or ()]) for row in rows]


@dataclass(frozen=True)
class Unfinished:
    """The jobs that are not over."""

    rows: list[tuple[str, JobState, int, int]]
    """The owner, a state, how many jobs of theirs are in it, and the id of the newest of these."""

    def counts(self, owner: str | None) -> Counter[JobState]:
        """Return how many jobs are in each state, of one owner or of all."""
        found: Counter[JobState] = Counter()
        for whose, state, count, _ in self.rows:
            found[state] += count if owner in (None, whose) else 0
        return +found

    def newest(self, owner: str | None) -> int:
        return max((job_id for whose, _, _, job_id in self.rows if owner in (None, whose)), default=0)


def unfinished(connection: Connection) -> Unfinished:
    rows = connection.execute(queries.text("overview", "unfinished"))
    return Unfinished([(owner, JobState(state), count, newest) for owner, state, count, newest in rows])


def speeds(connection: Connection, job_ids: Iterable[int]) -> dict[int, list[int]]:
    """Return the rows of each job in twenty steps of the time that it was at work."""
    found: dict[int, list[int]] = {}
    for job_id, step, rows in connection.execute(queries.text("overview", "speeds"), {"job_ids": list(job_ids)}):
        found.setdefault(job_id, [0] * STEPS)[step] = rows
    return found
