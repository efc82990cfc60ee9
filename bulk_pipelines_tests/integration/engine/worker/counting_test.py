"""What a kind counts is written with the items that it counts, once."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.worker.counting import Counting, Sums
from bulk_pipelines.engine.worker.settler import Settler
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines_tests.scenes.engine_jobs import WORK, claimed, expire, running
from bulk_pipelines_tests.scenes.settlers import LEASE, NEVER, add, succeeded


def counted(pool: Engine, job: Job) -> dict[str, int]:
    with transaction(pool) as connection:
        return dict(connection.execute("SELECT name, count FROM counted WHERE job_id = %s", [job.job_id]).fetchall())


def count(connection: psycopg.Connection[Any], job_id: int, sums: Sums) -> None:
    for (name,), (amount,) in sums.items():
        connection.execute(
            "INSERT INTO counted VALUES (%s, %s, %s)"
            " ON CONFLICT (job_id, name) DO UPDATE SET count = counted.count + excluded.count",
            [job_id, name, int(amount)],
        )


@pytest.fixture
def counting(pool: Engine) -> Iterator[Counting]:
    job = running(pool, 10)
    with transaction(pool) as connection:
        connection.execute("CREATE TABLE counted (job_id bigint, name text, count int, PRIMARY KEY (job_id, name))")
    yield Counting(job.job_id, count)
    with transaction(pool) as connection:
        connection.execute("DROP TABLE counted")


def job_of(pool: Engine, counting: Counting) -> Job:
    with transaction(pool) as connection:
        row = connection.execute("SELECT job_key FROM job WHERE job_id = %s", [counting.job_id]).fetchone()
        assert row is not None
        return jobs.find(connection, row[0])


def test_counts_are_written_with_the_items_and_no_others(pool: Engine, counting: Counting) -> None:
    """Counts of a batch that is not written go with the next one; when nothing more comes, they go alone."""
    job = job_of(pool, counting)
    given = claimed(pool, job)
    settler = Settler(
        pool, job.job_id, lambda: LEASE, NEVER, SettlerLimits(flush_at=1, flush_seconds=0.01), counting=counting
    )
    counting.add(("asked",), 3)
    counting.add(("asked",), 4)
    add(settler, given[:1])
    settler.drain()
    assert counted(pool, job) == {"asked": 7}
    expire(pool, given[1:2])
    rescue.run_once(pool, WORK, lambda: 0.0)
    counting.add(("asked",), 1)
    counting.add(("told",), 1)
    add(settler, given[1:2])
    settler.drain()
    assert settler.lost_count == 1
    assert counted(pool, job) == {"asked": 7}, "nothing was settled"
    add(settler, given[2:3])
    settler.drain()
    assert counted(pool, job) == {"asked": 8, "told": 1}
    counting.add(("told",), 5)
    settler.stop()
    assert counted(pool, job) == {"asked": 8, "told": 6}


def test_counts_are_written_once_though_the_answer_to_the_commit_is_lost(pool: Engine, counting: Counting) -> None:
    job = job_of(pool, counting)
    given = claimed(pool, job)
    settler = Settler(
        pool, job.job_id, lambda: LEASE, NEVER, SettlerLimits(flush_at=2, flush_seconds=NEVER, retry_seconds=0.01),
        counting=counting,
    )  # fmt: skip
    lost = [0]

    def lose(connection: psycopg.Connection[Any], job_id: int, sums: Sums) -> None:
        count(connection, job_id, sums)
        lost[0] += 1
        if lost[0] == 1:
            connection.execute("COMMIT")
            raise psycopg.OperationalError("the connection is gone, and nobody knows whether it was committed")
        if lost[0] == 2:
            raise psycopg.OperationalError("the connection is gone")

    counting.write_sums = lose
    for pair in (given[:2], given[2:4]):
        counting.add(("asked",), 2)
        add(settler, pair)
        settler.drain()
    settler.stop()
    assert counted(pool, job) == {"asked": 4}
    assert succeeded(pool, job) == 4
