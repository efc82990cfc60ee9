"""Imports whose processes are killed, whose database goes away: the table and the rejects are exact in the end."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.scenes import databases, imports
from bulk_pipelines_tests.scenes.imports import differences, found, submitted, user_file, worker
from bulk_pipelines_tests.scenes.today import one_of
from bulk_pipelines_tests.scenes.waiting import until

PATIENCE = 240.0


@dataclass(frozen=True)
class Place:
    server: Server
    url: str
    engine: Engine
    folder: Path


@pytest.fixture
def place(victim: Server, tmp_path: Path) -> Iterator[Place]:
    with databases.on_a_victim(victim) as url:
        engine = pool.connect(url, application="test")
        yield Place(victim, url, engine, tmp_path)
        engine.dispose()


def read(place: Place, job: Job) -> int:
    """How many records the import has read so far."""
    with pool.single(place.url) as connection:
        row = connection.execute("SELECT read FROM import_count WHERE job_id = %s", [job.job_id]).fetchone()
    return row[0] if row else 0


def is_over(place: Place, job: Job) -> bool:
    return imports.refreshed(place.engine, job).finished


def check_balance(place: Place, job: Job, records: int) -> None:
    ended = imports.refreshed(place.engine, job)
    assert ended.status is JobState.COMPLETED_WITH_ERRORS, ended.last_error
    result = ended.result
    assert result is not None
    assert (result["read"], result["waiting"], result["unprocessed"]) == (records, 0, 0)
    assert result["read"] == result["loaded"] + result["rejected"]


@pytest.mark.long
def test_killed_at_random_ten_times_and_the_database_restarted(place: Place, chance: random.Random) -> None:
    records = 300_000
    source = place.folder / "users.csv"
    expected = user_file(source, records, chance)
    job = submitted(place.engine, source)
    log = place.folder / "worker.log"
    for kill in range(10):
        process = worker(place.url, place.folder, job, log, rows=4_000)
        # Somewhere in the part of the file that this process is to read; in time also in the planning before it.
        target = min(read(place, job) + chance.randint(0, records // 12), records - 1)
        until(
            lambda process=process, target=target: read(place, job) >= target or process.poll() is not None,  # type: ignore[misc]
            "the import has come so far",
            PATIENCE,
        )
        process.kill()
        process.wait(10)
        if kill == 5:
            place.server.stop_immediately()
            place.server.start()
    last = worker(place.url, place.folder, job, log)
    until(lambda: is_over(place, job) or last.poll() is not None, "the import is over", PATIENCE)
    last.wait(30)
    assert is_over(place, job), log.read_text()[-3_000:]
    assert differences(expected, found(place.engine, job)) == []
    check_balance(place, job, records)


@pytest.mark.long
def test_the_database_goes_away_in_the_middle(place: Place, chance: random.Random) -> None:
    source = place.folder / "users.csv"
    expected = user_file(source, 60_000, chance)
    job = submitted(place.engine, source)
    log = place.folder / "worker.log"
    process = worker(place.url, place.folder, job, log, rows=2_000)
    for target in (10_000, 30_000):
        until(lambda target=target: read(place, job) >= target, "the import has come so far", PATIENCE)  # type: ignore[misc]
        place.server.stop_immediately()
        time.sleep(0.5)  # the outage itself
        place.server.start()
    assert process.wait(PATIENCE) == 0, log.read_text()[-3_000:]
    assert differences(expected, found(place.engine, job)) == []
    check_balance(place, job, 60_000)


@pytest.mark.long
@pytest.mark.parametrize(("lanes", "rows", "kills"), one_of([(1, 60_000, 0), (4, 700, 0), (4, 3_000, 3), (2, 0, 0)]))
def test_lanes_and_batches_make_no_difference(
    place: Place, chance: random.Random, lanes: int, rows: int, kills: int
) -> None:
    source = place.folder / "users.csv"
    expected = user_file(source, 50_000, chance, bad=0.1)
    job = submitted(place.engine, source)
    log = place.folder / "worker.log"
    processes = [worker(place.url, place.folder, job, log, rows=rows) for _ in range(lanes)]
    for kill in range(kills):
        until(lambda kill=kill: read(place, job) >= 10_000 * (kill + 1), "it has come so far", PATIENCE)  # type: ignore[misc]
        victim = processes.pop(chance.randrange(len(processes)))
        victim.kill()
        victim.wait(10)
        processes.append(worker(place.url, place.folder, job, log, rows=rows))
    for process in processes:
        assert process.wait(PATIENCE) == 0, log.read_text()[-3_000:]
    assert differences(expected, found(place.engine, job)) == []
    check_balance(place, job, 50_000)


@pytest.mark.long
def test_two_imports_of_the_same_new_keys_at_once(place: Place, chance: random.Random) -> None:
    """Every key is loaded by one of the two, and the other one rejects it as a duplicate."""
    source = place.folder / "users.csv"
    expected = user_file(source, 30_000, chance, bad=0.0)
    imports = [submitted(place.engine, source), submitted(place.engine, source)]
    logs = [place.folder / f"worker-{number}.log" for number in range(2)]
    processes = [worker(place.url, place.folder, job, log, rows=1_500) for job, log in zip(imports, logs, strict=True)]
    for process, log in zip(processes, logs, strict=True):
        assert process.wait(PATIENCE) == 0, log.read_text()[-3_000:]
    outcomes = [found(place.engine, job) for job in imports]
    assert {key: row[:5] for key, row in outcomes[0].rows.items()} == {k: row[:5] for k, row in expected.rows.items()}
    assert len(outcomes[0].rejects) + len(outcomes[1].rejects) == 30_000
    assert not outcomes[0].rejects.keys() & outcomes[1].rejects.keys()


@pytest.mark.long
def test_an_upsert_comes_to_the_same_with_one_lane_and_with_four_that_are_killed(
    place: Place, chance: random.Random
) -> None:
    source = place.folder / "users.csv"
    user_file(source, 30_000, chance, bad=0.1)
    log = place.folder / "worker.log"
    alone = submitted(place.engine, source, mode="upsert")
    assert worker(place.url, place.folder, alone, log, rows=40_000).wait(PATIENCE) == 0, log.read_text()[-3_000:]
    expected = found(place.engine, alone)
    assert len(expected.rows) > 25_000
    with pool.single(place.url) as connection:
        connection.execute("TRUNCATE users CASCADE")
    job = submitted(place.engine, source, mode="upsert")
    processes = [worker(place.url, place.folder, job, log, rows=700) for _ in range(4)]
    until(lambda: read(place, job) >= 5_000, "it has come so far", PATIENCE)
    processes[0].kill()
    processes[0].wait(10)
    for process in processes[1:]:
        assert process.wait(PATIENCE) == 0, log.read_text()[-3_000:]
    assert differences(expected, found(place.engine, job)) == []
