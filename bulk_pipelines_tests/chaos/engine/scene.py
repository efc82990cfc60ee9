"""What a chaos test looks at: one job on one database, and the truth about it when all is over."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.intake.persist import Item
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Request
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.errors import Unavailable
from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.kinds import KINDS
from bulk_pipelines_tests.scenes.engine_jobs import check_counters
from bulk_pipelines_tests.scenes.waiting import until

PATIENCE = 120.0
"""Only a job that hangs takes this long, on the slowest machine."""


class Row(NamedTuple):
    """An item as it stands in the database."""

    item_id: int
    status: str
    lease_term: int
    lease_owner: str | None
    attempt_count: int
    death_count: int
    error_class: str | None
    error_message: str | None
    result: dict[str, Any] | None
    parts: int


class Mark(NamedTuple):
    item_key: str
    term: int
    worker: str
    stage: str


@dataclass
class Scene:
    server: Server
    url: str
    pool: Engine
    folder: Path

    def job(self, kind: str, items: Iterable[Item]) -> Job:
        """A running job with all its items."""
        with transaction(self.pool) as connection:
            made = submission.submit(connection, KINDS, Request(kind, "chaos", {})).job
            jobs.start(connection, made.job_key)
        persist.add_items(self.pool, made.job_id, items, BatchSizer.within(BatchLimits(start_rows=1_000)))
        with transaction(self.pool) as connection:
            jobs.seal(connection, made.job_id)
        return self.find(made.job_key)

    @contextmanager
    def worked(
        self, kind: str, work: list[Item], workers: int, *, replaced: int | None = None
    ) -> Iterator[tuple[Crew, Job]]:
        """Let so many workers work a job to its end, whatever the block does to them. Every item is worked, once, and
        as many workers died as had to be replaced."""
        job = self.job(kind, work)
        with Crew(self.url, job, self.folder) as crew:
            crew.hire(workers)
            yield crew, job
            self.finish(crew, job)
            assert replaced in (None, crew.replaced)
        self.check(job, keys(work))

    def find(self, job_key: str) -> Job:
        with transaction(self.pool) as connection:
            return jobs.find(connection, job_key)

    def rows(self, job: Job) -> dict[str, Row]:
        query = (
            "SELECT item_key, item_id, item.state, lease_term, lease_owner, attempt_count, death_count, error_class,"
            " error_message, result, coalesce((input->>'parts')::int, 1) FROM job_item AS item WHERE job_id = %s"
        )
        with transaction(self.pool) as connection:
            return {key: Row._make(rest) for key, *rest in connection.execute(query, [job.job_id])}

    def marks(self, stage: str) -> list[Mark]:
        with transaction(self.pool) as connection:
            found = connection.execute(
                "SELECT item_key, term, worker, stage FROM mark WHERE stage = %s ORDER BY at", [stage]
            )
            return [Mark._make(row) for row in found]

    def parts(self) -> Counter[tuple[str, int]]:
        with transaction(self.pool) as connection:
            return Counter(connection.execute("SELECT item_key, number FROM part").fetchall())

    def written(self) -> int:
        """Rows of data that are committed: how far the job has come, by its effects."""
        with transaction(self.pool) as connection:
            return count(connection, "SELECT (SELECT count(*) FROM part) + (SELECT count(*) FROM mark)")

    def end_connections(self) -> int:
        """Terminate every connection to the job's database, and return how many there were."""
        ask = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        with pool.single(self.server.url()) as connection:
            return len(connection.execute(ask, [self.pool.url.database]).fetchall())

    def get_on(self, crew: Crew, job: Job, rows: int) -> None:
        """Wait until the effects have come this much further, or the job to its end; the dead are replaced."""
        goal = self.written() + rows

        def there() -> bool:
            crew.tend()
            return self.written() >= goal or self.find(job.job_key).finished

        until(there, f"{goal} rows are written", PATIENCE)

    def finish(self, crew: Crew, job: Job, seconds: float = PATIENCE) -> Job:
        """Wait for the end of the job and of all its workers, by themselves; the dead are replaced."""

        def over() -> bool:
            crew.tend()
            try:
                return self.find(job.job_key).finished and crew.all_ended()
            except Unavailable:
                return False

        until(over, f"job {job.job_key} and its workers have ended", seconds)
        return self.find(job.job_key)

    def check(self, job: Job, keys: Iterable[str], buried: Iterable[str] = ()) -> dict[str, Row]:
        """Check that each item ended once, that the counters are right, and that the job ended as its items did."""
        found = self.rows(job)
        ended = self.find(job.job_key)
        expected_dlq = set(buried)
        assert set(found) == set(keys)
        assert ended.status is (JobState.COMPLETED_WITH_ERRORS if expected_dlq else JobState.COMPLETED)
        check_counters(self.pool, ended)
        for key, row in found.items():
            assert row.status == (ItemState.DLQ if key in expected_dlq else ItemState.SUCCEEDED), (key, row)
        self.check_effects(found)
        return found

    def check_effects(self, rows: dict[str, Row]) -> None:
        done = Counter((each.item_key, each.term) for each in self.marks("done"))
        assert [each for each, times in done.items() if times > 1] == [], "a term was worked twice"
        for key, row in rows.items():
            if row.status == ItemState.SUCCEEDED:
                assert row.result is not None
                assert row.result["term"] == row.lease_term, f"{key} was settled by a term that did not hold it"
                assert done[key, row.lease_term] == 1, f"{key} was settled without its effect"
        parts = self.parts()
        assert [each for each, times in parts.items() if times > 1] == [], "data was written twice"
        if parts:
            wanted = {
                (key, number)
                for key, row in rows.items()
                if row.status == ItemState.SUCCEEDED
                for number in range(row.parts)
            }
            assert wanted <= set(parts), "data is missing"


def items(count: int, **given: object) -> list[Item]:
    return [(f"item-{number:04}", dict(given)) for number in range(count)]


def keys(of: list[Item]) -> list[str]:
    return [key for key, _ in of]


def count(connection: psycopg.Connection[Any], query: str, values: list[Any] | None = None) -> int:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return int(row[0])
