"""5,000 files of 50 rows into S3: the work itself, against its ceiling, and against what most people do.

The ceiling is to PUT the same bytes, ready-made, by obstore with the same concurrency, and to do nothing else. What
most people do is boto3 and 16 threads, each of which does query, CSV and PUT for one input after another. The S3 server
is rclone's, on this machine, so all sides share its processor with it.

The statements are those that pg_stat_statements counted in a run of its own, BEGIN and COMMIT among them.
"""

import csv
import io
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import boto3
import botocore.config
import obstore
from sqlalchemy import Engine

from benchmarks import measure
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.distribution import request, sample, submission
from bulk_pipelines.distribution.files import data
from bulk_pipelines.distribution.kind import kind_of
from bulk_pipelines.distribution.request import DistributionRequest, Input
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.s3.storage import S3Storage
from bulk_pipelines_tests.servers import processes
from bulk_pipelines_tests.servers.processes import Place, S3Server

INPUTS, ROWS, ROUNDS, THREADS = 5_000, 50, 5, 16

SELECT = """
    SELECT index_key, effective_date, asof_indicator, constituent, weight, close FROM index_data
    WHERE index_key = %s AND effective_date = %s AND asof_indicator = %s ORDER BY constituent
"""
CALLS = """
    SELECT coalesce(sum(calls) FILTER (WHERE query LIKE '%index_data%'), 0)::int,
        coalesce(sum(calls) FILTER (WHERE query NOT LIKE '%index_data%'), 0)::int
    FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid WHERE datname = current_database()
"""


@dataclass(frozen=True)
class Bench:
    url: str
    server: S3Server
    wanted: list[Input]
    bodies: dict[str, bytes]

    def measured(self, way: Callable[["Bench", Place], float]) -> Callable[[], float]:
        """Return a function that measures a way: the files a second that it writes into a new bucket. Each way has to
        write the same files."""

        def rate() -> float:
            with pool.single(self.url) as connection:
                connection.execute("TRUNCATE job, export_artifact CASCADE")  # no file may be reused
            measure.settle_down(self.url)
            place = self.server.bucket()
            seconds = way(self, place)
            with storage_of(place) as storage:
                found = {entry.key.rpartition("/")[2]: entry.size for entry in storage.entries()}
            assert found == {name: len(body) for name, body in self.bodies.items()}
            return len(found) / seconds

        return rate


def storage_of(place: Place) -> S3Storage:
    return S3Storage(place.url.removeprefix("s3://"), "", place.access.s3)


def ours(bench: Bench, place: Place) -> float:
    """Return the seconds that one worker takes, as one lane has it, from the start of the job until the job is over."""
    settings = Settings(distribution_url=f"{place.url}/exports", distribution_concurrency=THREADS)
    kind = kind_of(settings, place.access)
    engine = pool.connect(bench.url, size=settings.pool_size)
    job = submission.submit(engine, kind, DistributionRequest(tuple(bench.wanted)), Sender("bench", "api")).job
    begun = time.perf_counter()
    with pool.transaction(engine) as connection:
        job = jobs.start(connection, job.job_key)
    with Worker(engine, {kind.name: kind}, job) as worker:
        drain.drain(worker)
    seconds = time.perf_counter() - begun
    with pool.transaction(engine) as connection:
        ended = jobs.find(connection, job.job_key)
    assert (ended.status, ended.succeeded_items) == ("COMPLETED", len(bench.wanted)), ended
    engine.dispose()
    return seconds


def ceiling(bench: Bench, place: Place) -> float:
    with storage_of(place) as storage, ThreadPoolExecutor(THREADS) as threads:
        begun = time.perf_counter()
        for _ in threads.map(
            lambda each: obstore.put(storage.store, f"exports/{each[0]}", each[1]), bench.bodies.items()
        ):
            pass
        return time.perf_counter() - begun


def with_boto3(bench: Bench, place: Place) -> float:
    s3 = place.access.s3
    client = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        region_name=s3.region,
        aws_access_key_id=s3.access_key_id,
        aws_secret_access_key=s3.secret_access_key,
        config=botocore.config.Config(max_pool_connections=THREADS),
    )
    engine = pool.connect(bench.url, size=THREADS)
    bucket = place.url.removeprefix("s3://")

    def distribute(each: Input) -> None:
        with pool.transaction(engine) as connection:
            cursor = connection.execute(SELECT, [each.index_key, each.effective_date, each.asof])
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow([column.name for column in cursor.description or ()])
            writer.writerows(cursor)
        client.put_object(Bucket=bucket, Key=f"exports/{each.name}.csv", Body=text.getvalue().encode())

    with ThreadPoolExecutor(THREADS) as threads:
        begun = time.perf_counter()
        for _ in threads.map(distribute, bench.wanted):
            pass
        seconds = time.perf_counter() - begun
    engine.dispose()
    return seconds


def statements(s3: S3Server) -> tuple[int, int]:
    """Count the statements from the submission of a job to its end: those that read the data, and all others."""
    with measure.server() as running:
        with pool.single(running.url()) as admin:
            admin.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
        running.restart()
        with bench_on(running, s3) as bench:
            with pool.single(bench.url) as connection:
                connection.execute("CREATE EXTENSION pg_stat_statements")
                connection.execute("SELECT pg_stat_statements_reset()")
            bench.measured(ours)()
            with pool.single(bench.url) as connection:
                row = connection.execute(CALLS).fetchone()
    assert row is not None
    return row[0], row[1]


@contextmanager
def bench_on(running: Server, s3: S3Server) -> Iterator[Bench]:
    chosen = sample.Sample(indexes=INPUTS // 4, days=2, constituents=ROWS)
    wanted = request.checked(chosen.inputs())
    with measure.database(running) as url:
        engine = pool.connect(url)
        with pool.transaction(engine) as connection:
            sample.fill(connection, chosen)
        bodies = ready_made(engine, wanted)
        engine.dispose()
        yield Bench(url, s3, wanted, bodies)


def ready_made(engine: Engine, wanted: list[Input]) -> dict[str, bytes]:
    """Return the content of each file by its name."""
    found = data.read(engine, data.query_of(""), wanted)
    assert all(each is not None and each.rows == ROWS for each in found)
    return {f"{each.name}.csv": content.data for each, content in zip(wanted, found, strict=True) if content}


def main() -> None:
    ways = [ours, ceiling, with_boto3]
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as folder, processes.s3(Path(folder)) as s3:
        with measure.server() as running, bench_on(running, s3) as bench:
            rates = measure.in_turns([bench.measured(way) for way in ways], ROUNDS)
        reading, others = statements(s3)
    for way, samples in zip(ways, rates, strict=True):
        measure.show(way.__name__, samples, "files/s")
    middle = [median(samples) for samples in rates]
    measure.report("distribute-vs-ceiling", middle[0], middle[1], "files/s")
    measure.report("distribute-vs-boto3", middle[0], middle[2], "files/s")
    measure.report("distribute-statements", others, INPUTS, "statements")
    measure.report("distribute-data-queries", reading, INPUTS, "statements")


if __name__ == "__main__":
    main()
