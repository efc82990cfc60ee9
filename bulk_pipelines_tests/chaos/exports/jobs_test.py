"""Exports whose workers are killed, whose database goes away: one file in the end, and never half of one."""

import hashlib
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.exports import completion
from bulk_pipelines_tests.scenes import databases
from bulk_pipelines_tests.scenes.export_files import exporting, insert_users, names_in
from bulk_pipelines_tests.scenes.exports import QUICK, found, process, rows_so_far, slow_down, speed_up, started
from bulk_pipelines_tests.scenes.waiting import until

ROWS = 20_000
PATIENCE = 120.0


@dataclass
class Place:
    server: Server
    url: str
    engine: Engine
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def start(self, **params: Any) -> Job:
        return started(self.engine, to=str(self.out), **params)

    def worker(self, job: Job) -> subprocess.Popen[bytes]:
        made: subprocess.Popen[bytes] = process(self.url, self.folder, job, self.folder / "worker.log")
        self.processes.append(made)
        return made

    def single(self) -> Any:
        return pool.single(self.url)

    def in_the_middle(self, job: Job) -> None:
        with self.single() as connection:
            before = rows_so_far(connection, job)
            until(lambda: rows_so_far(connection, job) > before, "rows are being written", PATIENCE)


@pytest.fixture
def place(victim: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("BULK_HOME", str(tmp_path))
    with databases.on_a_victim(victim) as url:
        made = Place(victim, url, pool.connect(url, application="test"), tmp_path)
        insert_users(made.engine, ROWS)
        with made.single() as connection:
            slow_down(connection)
        yield made
        for each in made.processes:
            each.kill()
            each.wait()
        made.engine.dispose()
    print((tmp_path / "worker.log").read_text())


def check_one_whole_file(place: Place, job: Job) -> None:
    ended = found(place.engine, job)
    assert ended.status is JobState.COMPLETED, ended.last_error
    assert names_in(place.out) == [f"users-{job.job_key}.csv"]
    data = (place.out / f"users-{job.job_key}.csv").read_bytes()
    assert ended.result is not None
    assert (ended.result["rows"], ended.result["bytes"]) == (ROWS, len(data))
    assert ended.result["sha256"] == hashlib.sha256(data).hexdigest()
    assert data.count(b"\n") == ROWS + 1


@pytest.mark.long
def test_killed_in_the_middle_and_tried_again(place: Place) -> None:
    job = place.start()
    for _ in range(2):
        worker = place.worker(job)
        place.in_the_middle(job)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert all(name.endswith(".part") for name in names_in(place.out)), "nothing is published"
        assert names_in(place.out) != []
    with place.single() as connection:
        until(lambda: exporting(connection) == 0, "PostgreSQL has noticed", PATIENCE)
        speed_up(connection)
    assert place.worker(job).wait(PATIENCE) == 0
    check_one_whole_file(place, job)


@pytest.mark.long
def test_an_orphan_that_wakes_up_publishes_nothing(place: Place) -> None:
    """The orphan's lease ran out while its process was stopped, and another worker has published since."""
    job = place.start()
    orphan = place.worker(job)
    place.in_the_middle(job)
    orphan.send_signal(signal.SIGSTOP)
    assert place.worker(job).wait(PATIENCE) == 0
    check_one_whole_file(place, job)
    published = (place.out / f"users-{job.job_key}.csv").stat()
    orphan.send_signal(signal.SIGCONT)
    orphan.wait(PATIENCE)
    check_one_whole_file(place, job)
    assert (place.out / f"users-{job.job_key}.csv").stat() == published


@pytest.mark.long
def test_the_database_goes_away_in_the_middle(place: Place) -> None:
    job = place.start()
    worker = place.worker(job)
    for _ in range(2):
        place.in_the_middle(job)
        place.server.stop_immediately()
        until(lambda: names_in(place.out) == [], "what was written is gone", PATIENCE)
        place.server.start()
    with place.single() as connection:
        speed_up(connection)
    assert worker.wait(PATIENCE) == 0
    check_one_whole_file(place, job)


@pytest.mark.long
def test_cancelled_and_killed_before_it_could_stop(place: Place) -> None:
    """Nobody is left to clean up but the sweeper."""
    job = place.start()
    worker = place.worker(job)
    place.in_the_middle(job)
    worker.send_signal(signal.SIGSTOP)
    jobs.cancel(place.engine, job.job_key)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert names_in(place.out) != []
    until(lambda: rescue.run_once(place.engine, QUICK, lambda: 0.0).items > 0, "its lease has run out", PATIENCE)
    jobs.cancel(place.engine, job.job_key)
    assert completion.wind_up_all(place.engine) == 1
    assert names_in(place.out) == []
    assert found(place.engine, job).status is JobState.CANCELLED
