"""A database with index data, a place for files, and jobs of distribution worked in this process."""

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import answer, submission
from bulk_pipelines.distribution.files import data, target
from bulk_pipelines.distribution.files.data import Query
from bulk_pipelines.distribution.files.reuse import ReusePolicy
from bulk_pipelines.distribution.kind import kind_with
from bulk_pipelines.distribution.request import DistributionRequest, Input
from bulk_pipelines.distribution.work import Distributor
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.drain import Drained
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.servers.processes import Place

TODAY = date(2024, 6, 1)
DAY = 20240202
HEADER = ["index_key", "effective_date", "asof_indicator", "constituent", "weight", "close"]

QUICK = Settings(distribution_base_delay=0.01, distribution_lease_seconds=1.0, distribution_concurrency=4)

Given = dict[str, Any]


class Item(NamedTuple):
    status: str
    attempts: int
    term: int
    result: dict[str, Any] | None
    error_class: str | None
    error: str | None


class Registered(NamedTuple):
    path: str
    size: int
    checksum: str
    source_job_key: str


def wanted(index_key: str, day: int = DAY, asof: str = "CLS") -> Given:
    return {"indexKey": index_key, "effectiveDate": day, "asofindicator": asof}


def many(count: int) -> list[Given]:
    return [wanted(f"IDX{number:05}") for number in range(count)]


@dataclass
class Scene:
    pool: Engine
    place: Place
    settings: Settings = QUICK
    today: date = TODAY
    query: str = ""
    """The path of a file with the query for the data of an input; without one, the default query is used."""
    made: dict[str, Kind] = field(default_factory=dict)

    def with_settings(self, **changes: Any) -> "Scene":
        return replace(self, settings=replace(self.settings, **changes), made={})

    def on(self, place: Place) -> "Scene":
        return replace(self, place=place, made={})

    @property
    def kind(self) -> Kind:
        if not self.made:
            kind = kind_with(
                Distributor(
                    lambda: target.opened(f"{self.place.url}/exports", self.place.access),
                    data.query_of(self.query),
                    ReusePolicy(self.settings.reuse_files, self.settings.reuse_days),
                    today=lambda: self.today,
                ),
                self.settings,
            )
            self.made[kind.name] = kind
        return next(iter(self.made.values()))

    def have(self, inputs: Iterable[Given], rows: int = 3, close: str = "10.5") -> None:
        """Put data for these inputs into the database."""
        with transaction(self.pool) as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO index_data SELECT %s, to_date(%s, 'YYYYMMDD'), %s, 'C' || lpad(n::text, 6, '0'),"
                " round(1.0 / %s, 10), %s FROM generate_series(1, %s) AS n",
                [
                    (each["indexKey"], str(each["effectiveDate"]), each["asofindicator"], rows, close, rows)
                    for each in inputs
                ],
            )

    def change(self, index_key: str, close: str) -> None:
        with transaction(self.pool) as connection:
            connection.execute("UPDATE index_data SET close = %s WHERE index_key = %s", [close, index_key])

    def submit(self, inputs: Sequence[Given], **options: Any) -> Job:
        request, sender = DistributionRequest.parse(inputs), Sender(**{"owner": "me", "origin": "api", **options})
        return submission.submit(self.pool, self.kind, request, sender).job

    def job(self, job_key: str) -> Job:
        with transaction(self.pool) as connection:
            return jobs.find(connection, job_key)

    def started(self, inputs: Sequence[Given]) -> Job:
        job = self.submit(inputs)
        with transaction(self.pool) as connection:
            return jobs.start(connection, job.job_key)

    def worker(self, job: Job, **options: Any) -> Worker:
        options.setdefault("settler_limits", SettlerLimits(flush_seconds=0.01))
        return Worker(self.pool, {self.kind.name: self.kind}, job, **options)

    def work(self, job: Job, **options: Any) -> Drained:
        """Work the job in this process until it is over, or until `options` let the worker leave."""
        with self.worker(job) as worker:
            return drain.drain(worker, **options)

    def done(self, inputs: Sequence[Given]) -> Job:
        job = self.started(inputs)
        self.work(job)
        return self.job(job.job_key)

    def answer(self, job: Job, **options: Any) -> dict[str, Any]:
        return answer.of_job(self.pool, job.job_key, **options)

    def items(self, job: Job) -> dict[str, Item]:
        """Return the items by the name of their index. An item whose day or kind is not what `wanted` gives has its
        whole key instead."""
        with transaction(self.pool) as connection:
            rows = connection.execute(
                "SELECT replace(item_key, '_20240202_CLS', ''), item.state::text, attempt_count, lease_term, result,"
                " error_class, error_message FROM job_item AS item WHERE job_id = %s ORDER BY item_id",
                [job.job_id],
            ).fetchall()
        return {row[0]: Item(*row[1:]) for row in rows}

    def statuses(self, job: Job) -> dict[str, str]:
        return {key: item.status for key, item in self.items(job).items()}

    def registry(self) -> dict[str, Registered]:
        with transaction(self.pool) as connection:
            rows = connection.execute(
                "SELECT index_key || '_' || to_char(effective_date, 'YYYYMMDD') || '_' || asof_indicator,"
                " path, size, checksum, source_job_key FROM export_artifact ORDER BY 1"
            ).fetchall()
        return {row[0]: Registered(*row[1:]) for row in rows}

    def files(self) -> dict[str, bytes]:
        """Return the content of all stored files, hidden ones too, by their whole addresses."""
        with locations.folder(self.place.url, self.place.access) as storage:
            found = [*storage.entries(), *storage.entries("**/.*")]
            return {storage.url_of(entry.key): storage.read(entry.key) for entry in found}

    def path(self, job: Job, given: Given) -> str:
        day = job.job_key[1:9]
        name = "{indexKey}_{effectiveDate}_{asofindicator}.csv".format(**given)
        return f"{self.place.url}/exports/{day[:4]}/{day[4:6]}/{day[6:]}/{job.job_key}/{name}"

    def check(self, job: Job, inputs: Sequence[Given]) -> None:
        """Check that the job is complete, that every file is there once and right, and that the registry agrees with
        the files."""
        items, files = self.items(job), self.files()
        assert {item.status for item in items.values()} == {"SUCCEEDED"}
        assert self.job(job.job_key).status == "COMPLETED"
        paths = {self.path(job, each) for each in inputs}
        assert {path for path in files if f"/{job.job_key}/" in path} == paths
        for row in self.registry().values():
            assert (row.size, row.checksum) == measured(files[row.path])
        for item in items.values():
            assert item.result is not None
            assert (item.result["size"], item.result["checksum"]) == measured(files[item.result["path"]])
        self.counters_agree(job)

    def counters_agree(self, job: Job) -> None:
        """Check that the counters of the job agree with its items."""
        found = self.job(job.job_key)
        states = list(self.statuses(job).values())
        counted = {
            "PENDING": found.pending_items,
            "RUNNING": found.running_items,
            "RETRY_WAIT": found.retry_wait_items,
            "SUCCEEDED": found.succeeded_items,
            "DLQ": found.dlq_items,
            "CANCELLED": found.cancelled_items,
        }
        assert counted == {state: states.count(state) for state in counted}
        assert found.total_items == len(states)


def measured(content: bytes) -> tuple[int, str]:
    return len(content), hashlib.sha256(content).hexdigest()


def records(content: bytes) -> list[list[str]]:
    """Return the records of a file as any reader of CSV sees them."""
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def paths(answered: Mapping[str, Any]) -> list[str]:
    return [each["s3Path"] for each in answered["dataContent"]]


def whole(scene: Scene, query: Query, one: Input) -> bytes:
    with data.stream(scene.pool, query, one) as stream:
        return b"".join(chunk.data for chunk in stream.chunks)


def query_file(folder: Path, text: str) -> str:
    file = folder / "query.sql"
    file.write_text(text, encoding="utf-8")
    return str(file)
