"""Files that lie where an export publishes: those of other people stay, an earlier one is never lost, and what an
earlier try left is believed or removed."""

import hashlib
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.exports import completion
from bulk_pipelines.exports.work import Point
from bulk_pipelines.storage import paths
from bulk_pipelines_tests.scenes.export_files import insert_users, names_in
from bulk_pipelines_tests.scenes.exports import exported, started, worked

pytestmark = pytest.mark.usefixtures("home")


def test_a_file_of_somebody_else_stays(engine: Engine, tmp_path: Path) -> None:
    """The name was given, and written by another since."""
    insert_users(engine, 100)
    path = tmp_path / "out" / "all.csv"
    job = started(engine, to=str(path))

    def cancel() -> None:
        jobs.cancel(engine, job.job_key)
        path.write_text("theirs")

    worked(engine, job, {Point.PUBLISHED: cancel})
    completion.wind_up_all(engine)
    assert path.read_text() == "theirs"


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("when", [Point.NOTED, Point.PUBLISHED])
def test_an_earlier_file_is_never_lost(engine: Engine, tmp_path: Path, when: Point, same: bool) -> None:
    """Paused around the publication and cancelled then: there is the earlier file or the new one, never none."""
    insert_users(engine, 100)
    path = tmp_path / "out" / "all.csv"
    assert exported(engine, to=str(path), order="id").status is JobState.COMPLETED
    earlier = path.read_text()
    if not same:
        with pool.transaction(engine) as connection:
            connection.execute("UPDATE users SET name = 'another'")
    job = started(engine, to=str(path), order="id")

    def pause() -> None:
        with pool.transaction(engine) as connection:
            jobs.pause(connection, job.job_key)

    assert worked(engine, job, {when: pause}).status is JobState.PAUSED
    jobs.cancel(engine, job.job_key)
    assert completion.wind_up_all(engine) == 1
    assert (path.read_text() == earlier) == (same or when is Point.NOTED)
    assert len(path.read_text().splitlines()) == 101
    assert completion.wind_up_all(engine) == 0


def test_a_file_of_somebody_else_that_comes_while_ours_is_taken_back_stays(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 100)
    path = tmp_path / "all.csv"
    job = started(engine, to=str(path))
    worked(engine, job, {Point.PUBLISHED: lambda: jobs.cancel(engine, job.job_key)})
    heard: list[Point] = []

    def replace(point: Point) -> None:
        heard.append(point)
        path.write_text("theirs")

    completion.wind_up(engine, job.job_key, replace)
    assert heard == [Point.RECOGNISED], "it is ours when it is looked at"
    assert path.read_text() == "theirs"


def test_who_died_after_publishing_is_believed_by_the_next(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 100)
    job = started(engine, to=str(tmp_path / "out"))
    path = tmp_path / "out" / f"users-{job.job_key}.csv"
    published: list[bytes] = []

    def fail() -> None:
        published.append(path.read_bytes())
        raise OSError("as if the process had died")

    ended = worked(engine, job, {Point.PUBLISHED: fail})
    assert ended.status is JobState.COMPLETED
    assert len(published) == 1, "the file was found, not written again"
    assert ended.result is not None
    assert ended.result["sha256"] == hashlib.sha256(published[0]).hexdigest()
    assert names_in(tmp_path / "out") == [f"users-{job.job_key}.csv"]


def test_what_a_killed_try_left_goes_with_the_next(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 100)
    folder = tmp_path / "out"
    job = started(engine, to=str(folder))
    left = folder / paths.unfinished(f"users-{job.job_key}.csv", "0123456789abcdef")
    others = folder / paths.unfinished("users-J1.csv", "0123456789abcdef")

    def fail_once() -> None:
        if not folder.exists():
            folder.mkdir()
            left.write_text("half")
            others.write_text("half")
            raise OSError("as if the process had died")

    assert worked(engine, job, {Point.BEGUN: fail_once}).status is JobState.COMPLETED
    assert not left.exists()
    assert others.exists()
