"""What the ledger says of a file that failed is about that file, not about those that were imported with it."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines_tests.scenes import drops as drop_scene
from bulk_pipelines_tests.scenes.drop_imports import Drops
from bulk_pipelines_tests.scenes.drops import folder_box


@pytest.fixture
def drops(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drops:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    return Drops(engine, folder_box(tmp_path / "inbox"))


def notes(drops: Drops) -> dict[str, tuple[str, str | None]]:
    drops.clear_up()
    return {path: (status, note) for path, status, note in drops.ends()}


def bury(drops: Drops, job: Job, number: int, error: str) -> Job:
    """Bury the item of the file with this number, as when its range could not be loaded, whatever was tried."""
    with transaction(drops.engine) as connection:
        connection.execute(
            "UPDATE job_item SET status = 'DLQ', error_message = %s, error_class = 'permanent'"
            " WHERE job_id = %s AND (input #>> '{ranges,0,0}')::int = %s",
            [error, job.job_id, number],
        )
        connection.execute(
            "UPDATE job SET succeeded_items = succeeded_items - 1, dlq_items = 1, status = 'COMPLETED_WITH_ERRORS',"
            " last_error = '1 of 1 range could not be loaded' WHERE job_id = %s",
            [job.job_id],
        )
        return jobs.find(connection, job.job_key)


def test_when_no_file_is_any_good(drops: Drops) -> None:
    drops.box.drop("users-a.csv", b"shoe,size\n1,2\n")
    drops.box.drop("users-b.csv", b"hat\n1\n")
    drops.box.drop("users-c.csv", b"\x1f\x8b\x08 no gzip")
    job = drops.taken()
    done = drops.work(job)
    assert done.status is JobState.FAILED
    assert "users-a.csv" in (done.last_error or ""), "the job tells all of them"
    ends = notes(drops)
    assert {status for status, _ in ends.values()} == {"FAILED"}
    for name, own in {"users-a.csv": "shoe", "users-b.csv": "hat", "users-c.csv": "gzip"}.items():
        note = ends[name][1] or ""
        assert own in note
        assert [other for other in ("shoe", "hat", "gzip") if other != own and other in note] == []


def test_what_was_no_good_is_landed_anew_when_the_import_is_tried_again(drops: Drops) -> None:
    drops.box.drop("users-a.csv", drop_scene.users("a", 2))
    job = drops.taken()
    path = Path(drops.box.url) / "users-a.csv"
    path.rename(path.with_name("away"))
    assert drops.work(job).status is JobState.FAILED
    path.with_name("away").rename(path)
    with transaction(drops.engine) as connection:
        jobs.move(connection, job.job_key, JobEvent.REDRIVE)
        job = jobs.start(connection, job.job_key)
    assert drops.work(job).status is JobState.COMPLETED
    assert notes(drops) == {"users-a.csv": ("DONE", None)}


def test_a_range_that_could_not_be_loaded(drops: Drops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bulk_pipelines.imports.plan.planning.RANGE_BYTES", 1)
    for name in "ab":
        drops.box.drop(f"users-{name}.csv", drop_scene.users(name, 1))
    done = drops.work(drops.taken())
    assert done.status is JobState.COMPLETED
    bury(drops, done, 2, "the disk of this range is full")
    assert notes(drops) == {
        "users-a.csv": (
            "FAILED",
            "its import of 2 files is COMPLETED_WITH_ERRORS: 1 of 1 range could not be loaded",
        ),
        "users-b.csv": ("FAILED", "the disk of this range is full"),
    }


def test_an_import_that_was_aborted_says_so_of_itself(drops: Drops) -> None:
    rules = tuple(type(rule)(**(vars(rule) | {"on_error": "abort"})) for rule in drops.source.rules)
    drops.source = DropSource(**(vars(drops.source) | {"rules": rules}))
    drops.box.drop("users-a.csv", drop_scene.users("a", 1))
    drops.box.drop("users-b.csv", drop_scene.users("b", 2, bad=1))
    assert drops.work(drops.taken()).status is JobState.FAILED
    for status, note in notes(drops).values():
        assert status == "FAILED"
        assert (note or "").startswith("its import of 2 files is FAILED: aborted: ")


def test_an_import_that_failed_before_it_had_read_its_files(drops: Drops) -> None:
    """What it says last may be about one of them: a server that did not answer, say."""
    for name in "ab":
        drops.box.drop(f"users-{name}.csv", drop_scene.users(name, 1))
    job = drops.taken()
    with transaction(drops.engine) as connection:
        jobs.fail(connection, job.job_key, "users-a.csv: the server cannot be reached")
    assert {note for _, note in notes(drops).values()} == {"its import of 2 files is FAILED: see its job"}
