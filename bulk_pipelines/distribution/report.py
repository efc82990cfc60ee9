"""What became of a job: figures, and the files that people ask about."""

from dataclasses import dataclass

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.distribution.request import stored
from bulk_pipelines.engine.jobs.jobs import Job

SHOWN_FILES = 100
SHOWN_SLOWEST = 10


@dataclass(frozen=True)
class Totals:
    files: int
    reused: int
    bytes_written: int
    rows_written: int
    retries: int

    @property
    def generated(self) -> int:
        return self.files - self.reused

    @property
    def reuse_rate(self) -> float:
        return self.reused / self.files if self.files else 0.0


@dataclass(frozen=True)
class File:
    input: str
    path: str
    size: int
    rows: int
    reused: bool
    seconds: float


@dataclass(frozen=True)
class Figures:
    totals: Totals
    seconds: float
    first_files: list[File]
    slowest: list[File]

    @property
    def files_per_second(self) -> float:
        return self.totals.files / self.seconds if self.seconds > 0 else 0.0


def of_job(connection: Connection, job: Job) -> Figures:
    values = {"job_id": job.job_id}
    with connection.cursor(row_factory=class_row(Totals)) as cursor:
        totals = cursor.execute(queries.text("distribution", "figures_of_job"), values).fetchone()
    assert totals is not None, "sums always make a row"
    return Figures(
        totals,
        job.seconds_at_work,
        files(connection, "shown_files", job, SHOWN_FILES),
        files(connection, "slowest_files", job, SHOWN_SLOWEST),
    )


def files(connection: Connection, query: str, job: Job, most: int) -> list[File]:
    rows = connection.execute(queries.text("distribution", query), {"job_id": job.job_id, "most": most}).fetchall()
    return [
        File(stored(wanted).shown, *(result[name] for name in ("path", "size", "rows", "reused", "seconds")))
        for wanted, result in rows
    ]
