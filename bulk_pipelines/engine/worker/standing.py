"""Whether a worker may go on: by what somebody asked of it, by its time, and by its job's state."""

from collections.abc import Callable

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker.settler import Settler
from bulk_pipelines.engine.worker.stopping import Stop
from bulk_pipelines.errors import Unavailable

LOOK_SECONDS = 1.0
"""The fewest seconds between two looks at the job's state, by which a long item learns whether to stop."""


class Standing:
    """What one worker knows of whether it may go on."""

    def __init__(self, pool: Engine, job: Job, clock: Callable[[], float], settler: Settler) -> None:
        self.pool = pool
        self.job_id = job.job_id
        self.clock = clock
        self.settler = settler
        self.asked = Stop()
        self.leave_at: float | None = None
        """A time of the clock after which no item is begun, and items that have reached a checkpoint are asked to
        stop."""
        self.looked_at = clock()
        self.status = job.status

    def seen(self, status: JobState) -> None:
        self.looked_at, self.status = self.clock(), status

    def look(self) -> JobState:
        """Return the job's state as the database has it now."""
        with transaction(self.pool) as connection:
            row = connection.execute(queries.text("jobs", "job_status"), {"job_id": self.job_id}).fetchone()
        assert row is not None, "a job with leased items is not deleted"
        self.seen(JobState(row[0]))
        self.settler.job_status = self.status  # the state that a settlement saw may be out of date
        return self.status

    def stopping(self, *, got_on: bool) -> bool:
        """Whether a long item is to stop. `got_on` says whether it has reached a checkpoint."""
        if self.asked.is_set() or (got_on and self.out_of_time):
            return True
        if self.clock() - self.looked_at > LOOK_SECONDS:
            try:
                self.look()
            except (Unavailable, psycopg.OperationalError):
                self.looked_at = self.clock()  # a handler that needs no database does not stop because it is away
        return self.status is not JobState.RUNNING

    @property
    def out_of_time(self) -> bool:
        """Whether the worker's time is over. Only items that have reached a checkpoint are stopped by it: others would
        begin anew, and might never come to their end."""
        return self.leave_at is not None and self.clock() >= self.leave_at
