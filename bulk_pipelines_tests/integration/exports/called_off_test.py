"""Exports that are cancelled, paused, or lose their lease: nothing is published, and nothing is left."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.jobs import cut_short, jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.exports import completion
from bulk_pipelines.exports.work import Point
from bulk_pipelines_tests.scenes.engine_jobs import ALL_RUN_OUT
from bulk_pipelines_tests.scenes.export_files import exporting, insert_users, names_in, watching
from bulk_pipelines_tests.scenes.exports import QUICK, found, rows_so_far, slow_down, speed_up, started, worked
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = pytest.mark.usefixtures("home")


@contextmanager
def in_the_middle(engine: Engine, rows: int = 20_000, **params: Any) -> Iterator[Job]:
    """An export at work in a thread, some of its rows written; the caller decides what happens then."""
    insert_users(engine, rows)
    job = started(engine, **params)
    thread = threading.Thread(target=worked, args=(engine, job))
    with watching(engine) as connection:
        slow_down(connection)
        thread.start()
        try:
            until(lambda: rows_so_far(connection, job) > 0, "it has written some rows")
            yield job
        finally:
            speed_up(connection)
            thread.join(60)
            assert not thread.is_alive()


def test_a_cancel_stops_the_query_and_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    with in_the_middle(engine, to=str(tmp_path / "out")) as job, watching(engine) as connection:
        assert names_in(tmp_path / "out") != []
        jobs.cancel(engine, job.job_key)
        until(lambda: exporting(connection) == 0, "the query is cancelled", 10)
    assert found(engine, job).status is JobState.CANCELLED
    assert names_in(tmp_path / "out") == []
    completion.wind_up(engine, job.job_key)
    assert completion.wind_up_all(engine) == 0


def test_a_cancel_is_heard_while_the_first_rows_are_looked_for(engine: Engine, tmp_path: Path) -> None:
    """The preview of an export that is ordered, or whose filter finds little, reads the whole table first."""
    insert_users(engine, 20_000)
    job = started(engine, to=str(tmp_path / "out"), order="name")
    thread = threading.Thread(target=worked, args=(engine, job), daemon=True)
    with watching(engine) as connection:
        slow_down(connection, seconds=0.005)
        thread.start()
        at_work = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%LIMIT 10%'"
        looking = f"{at_work} AND state = 'active' AND pid <> pg_backend_pid()".encode()
        until(lambda: connection.execute(looking).fetchone() == (1,), "PostgreSQL looks for the first rows")
        jobs.cancel(engine, job.job_key)
        thread.join(20)
        assert not thread.is_alive()
        assert connection.execute(looking).fetchone() == (0,)
    assert found(engine, job).status is JobState.CANCELLED
    assert names_in(tmp_path / "out") == []


def test_a_pause_leaves_nothing_and_a_resume_begins_anew(engine: Engine, tmp_path: Path) -> None:
    with in_the_middle(engine, to=str(tmp_path / "out")) as job, pool.transaction(engine) as connection:
        jobs.pause(connection, job.job_key)
    assert names_in(tmp_path / "out") == []
    with pool.transaction(engine) as connection:
        jobs.resume(connection, job.job_key)
        jobs.start(connection, job.job_key)
    ended = worked(engine, job)
    assert ended.status is JobState.COMPLETED
    assert names_in(tmp_path / "out") == [f"users-{job.job_key}.csv"]
    assert ended.result is not None
    assert ended.result["rows"] == 20_000


@pytest.mark.long
def test_progress_is_no_checkpoint(engine: Engine, tmp_path: Path) -> None:
    """A checkpoint would begin the tries anew, and an export that fails at its end be tried for ever."""
    with in_the_middle(engine, to=str(tmp_path / "out")) as job, watching(engine) as connection:
        before = rows_so_far(connection, job)
        until(lambda: rows_so_far(connection, job) > before, "it goes on")
        row = connection.execute("SELECT checkpoint, attempt_count FROM job_item").fetchone()
    assert row == (None, 1)
    assert found(engine, job).status is JobState.COMPLETED


def taken_away(engine: Engine) -> bool:
    """Take the item from its worker, as if that had been silent for too long. Return whether it was rescued: a renewal
    may come between."""
    with pool.transaction(engine) as connection:
        connection.execute(ALL_RUN_OUT)
    return rescue.run_once(engine, QUICK, lambda: 0.0).items == 1


@pytest.mark.long
def test_who_lost_the_lease_publishes_nothing(engine: Engine, tmp_path: Path) -> None:
    with in_the_middle(engine, to=str(tmp_path / "out")) as job:
        (first,) = names_in(tmp_path / "out")
        until(lambda: taken_away(engine), "its item is rescued")
        until(lambda: first not in names_in(tmp_path / "out"), "its next word of progress is refused", 10)
    assert found(engine, job).status is JobState.COMPLETED
    assert names_in(tmp_path / "out") == [f"users-{job.job_key}.csv"]


def test_a_cancel_between_the_last_byte_and_the_name(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 100)
    job = started(engine, to=str(tmp_path / "out"))
    ended = worked(engine, job, {Point.NOTED: lambda: jobs.cancel(engine, job.job_key)})
    assert ended.status is JobState.CANCELLED
    assert names_in(tmp_path / "out") == []


@pytest.mark.parametrize("to", ["out", "out/all.csv"])
def test_a_cancel_after_the_name_takes_the_file_back(engine: Engine, tmp_path: Path, to: str) -> None:
    insert_users(engine, 100)
    job = started(engine, to=str(tmp_path / to))
    ended = worked(engine, job, {Point.PUBLISHED: lambda: jobs.cancel(engine, job.job_key)})
    assert ended.status is JobState.CANCELLED
    assert len(names_in(tmp_path / "out")) == 1
    assert completion.wind_up_all(engine) == 1
    assert names_in(tmp_path / "out") == []
    assert completion.wind_up_all(engine) == 0


def test_an_export_that_cannot_be_wound_up_keeps_no_other_from_it(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_short, "AT_A_TIME", 1)
    insert_users(engine, 100)
    broken, whole = (started(engine, to=str(tmp_path / name)) for name in ("broken", "whole"))
    for job in (broken, whole):
        worked(engine, job, {Point.PUBLISHED: partial(jobs.cancel, engine, job.job_key)})
    with pool.transaction(engine) as connection:
        connection.execute("UPDATE job SET params = '{}' WHERE job_id = %s", [broken.job_id])
    assert completion.wind_up_all(engine) == 1
    assert (len(names_in(tmp_path / "broken")), names_in(tmp_path / "whole")) == (1, [])
