"""What becomes of files when their imports are over."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import put_away, retry
from bulk_pipelines.drops.sources import After
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.errors import Conflict, Transient, Unavailable
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.contract import Entry, Storage
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.inbox import Inbox


@pytest.mark.parametrize(
    ("after", "event", "left"),
    [
        (After.LEAVE, JobEvent.COMPLETE, ["users.csv", "users.csv.done"]),
        (After.MOVE, JobEvent.COMPLETE, ["done/JOB/users.csv", "done/JOB/users.csv.done"]),
        (After.DELETE, JobEvent.COMPLETE, []),
        (After.DELETE, JobEvent.FAIL, ["failed/JOB/users.csv", "failed/JOB/users.csv.done"]),
    ],
)
def test_a_marker_goes_with_its_file(inbox: Inbox, after: After, event: JobEvent, left: list[str]) -> None:
    inbox.set(marker=".done", after=after)
    inbox.drop("users.csv")
    inbox.drop("users.csv.done", "")
    (key,) = inbox.look().jobs
    inbox.end_jobs(event)
    assert inbox.clear_up() == 1
    found = sorted(str(path.relative_to(inbox.folder)) for path in inbox.folder.rglob("*") if path.is_file())
    assert found == [path.replace("JOB", key) for path in left]


@pytest.mark.parametrize(
    ("after", "event", "left", "status"),
    [
        (After.LEAVE, JobEvent.COMPLETE, ["users.csv"], "DONE"),
        (After.MOVE, JobEvent.COMPLETE_WITH_ERRORS, ["done/JOB/users.csv"], "DONE"),
        (After.DELETE, JobEvent.COMPLETE, [], "DONE"),
        (After.DELETE, JobEvent.FAIL, ["failed/JOB/users.csv"], "FAILED"),
    ],
)
def test_what_becomes_of_a_file_by_how_its_import_went(
    inbox: Inbox, after: After, event: JobEvent, left: list[str], status: str
) -> None:
    inbox.set(after=after)
    inbox.drop("users.csv")
    (key,) = inbox.look().jobs
    assert inbox.clear_up() == 0, "not before its job is over"
    inbox.end_jobs(event)
    assert inbox.clear_up() == 1
    found = sorted(str(path.relative_to(inbox.folder)) for path in inbox.folder.rglob("*") if path.is_file())
    assert found == [path.replace("JOB", key) for path in left]
    assert inbox.statuses() == {"users.csv": status}
    assert inbox.look().taken == 0
    assert inbox.clear_up() == 0


def test_many_files_are_put_away_in_one_tick(inbox: Inbox) -> None:
    inbox.set(after=After.DELETE)
    count = 2 * put_away.AT_A_TIME + 1
    for number in range(count):
        inbox.drop(f"users-{number}.csv")
    assert inbox.look().taken == count
    inbox.end_jobs(JobEvent.COMPLETE)
    assert inbox.clear_up() == count
    assert list(inbox.folder.iterdir()) == []


class Unsteady(LocalStorage):
    """A storage that cannot be reached when files are to be moved, until it can."""

    def __init__(self, root: Path, *, steady: bool = False) -> None:
        super().__init__(root)
        self.steady = steady
        self.asked = 0

    def move(self, key: str, to: str) -> None:
        self.asked += 1
        if not self.steady:
            raise Transient("the connection broke")
        super().move(key, to)


def test_a_file_that_cannot_be_put_away_now_is_put_away_later(inbox: Inbox, engine: Engine) -> None:
    storage = Unsteady(inbox.folder)

    def clear_up() -> int:
        return put_away.clear_up(engine, inbox.source, lambda: storage)

    inbox.set(after=After.MOVE)
    inbox.drop("users.csv")
    (key,) = inbox.look().jobs
    inbox.end_jobs(JobEvent.COMPLETE)
    with pytest.raises(Unavailable, match="the connection broke"):
        clear_up()
    assert inbox.statuses() == {"users.csv": "TAKEN"}
    storage.steady = True
    assert clear_up() == 1
    assert (inbox.folder / "done" / key / "users.csv").exists()
    assert inbox.statuses() == {"users.csv": "DONE"}


def test_a_file_that_cannot_be_put_away_for_long_is_left_with_a_note(inbox: Inbox, engine: Engine) -> None:
    inbox.set(after=After.MOVE)
    inbox.drop("users.csv")
    inbox.look()
    inbox.end_jobs(JobEvent.COMPLETE)
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET finished_at = now() - interval '2 hours'")
    assert put_away.clear_up(engine, inbox.source, lambda: Unsteady(inbox.folder)) == 1
    with transaction(engine) as connection:
        row = connection.execute("SELECT status::text, note FROM file_drop").fetchone()
    assert row == ("DONE", "it could not be put away: the connection broke")


def test_putting_away_ends_in_time_however_slow_the_storage_is(
    inbox: Inbox, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Unsteady(inbox.folder, steady=True)
    monkeypatch.setattr(put_away, "CLEAR_SECONDS", 0.0)
    inbox.set(after=After.MOVE)
    for number in range(3):
        inbox.drop(f"users-{number}.csv")
    inbox.look()
    inbox.end_jobs(JobEvent.COMPLETE)
    assert put_away.clear_up(engine, inbox.source, lambda: storage) == 1
    assert storage.asked == 1
    assert sorted(inbox.statuses().values()) == ["DONE", "TAKEN", "TAKEN"]


def test_a_newer_version_is_not_put_away_with_the_old_one(inbox: Inbox) -> None:
    inbox.set(after=After.DELETE)
    path = inbox.drop("users.csv")
    inbox.look()
    path.write_text("id\n1\n2\n3\n")
    inbox.end_jobs(JobEvent.COMPLETE)
    inbox.clear_up()
    assert path.exists()
    assert inbox.look().taken == 1


@pytest.mark.parametrize(
    ("after", "failed_folder", "left"),
    [
        (After.MOVE, "failed", ["done/JOB/users.csv"]),
        (After.MOVE, None, ["done/JOB/users.csv"]),
        (After.DELETE, "failed", []),
        (After.LEAVE, "failed", ["failed/JOB/users.csv"]),
        (After.LEAVE, None, ["users.csv"]),
    ],
)
def test_a_failed_import_that_was_tried_again_with_success(
    inbox: Inbox, engine: Engine, after: After, failed_folder: str | None, left: list[str]
) -> None:
    inbox.set(after=after, failed_folder=failed_folder)
    inbox.drop("users.csv")
    (key,) = inbox.look().jobs
    inbox.end_jobs(JobEvent.FAIL)
    inbox.clear_up()
    with transaction(engine) as connection:
        jobs.move(connection, key, JobEvent.REDRIVE)
    assert inbox.clear_up() == 0, "it is at work again"
    with pytest.raises(Conflict, match=f"its import {key} was taken up again"):
        retry.retry(engine, {"inbox": inbox.source}, Access(), "users.csv", None)
    file = {"source": LocalStorage(inbox.folder).url_of("users.csv"), "sha256": "ab"}
    inbox.end_jobs(JobEvent.COMPLETE, {"files": [file]})
    assert inbox.clear_up() == 1
    assert inbox.statuses() == {"users.csv": "DONE"}
    found = sorted(str(path.relative_to(inbox.folder)) for path in inbox.folder.rglob("*") if path.is_file())
    assert found == [path.replace("JOB", key) for path in left]
    assert inbox.clear_up() == 0
    assert inbox.look().taken == 0


@pytest.mark.parametrize("after", [After.MOVE, After.DELETE])
def test_a_file_that_was_left_out_of_a_good_import_is_no_success(inbox: Inbox, engine: Engine, after: After) -> None:
    """One of many files that are one job may be none that can be read: it must not be deleted with the others."""
    inbox.set(after=after)
    inbox.drop("users-1.csv")
    inbox.drop("users-2.csv")
    (key,) = inbox.look().jobs
    url = LocalStorage(inbox.folder).url_of
    files = [
        {"source": url("users-1.csv"), "sha256": "ab", "duplicate": False, "note": None},
        {"source": url("users-2.csv"), "sha256": "cd", "duplicate": False, "note": "it has no column email"},
    ]
    inbox.end_jobs(JobEvent.COMPLETE_WITH_ERRORS, {"files": files})
    with transaction(engine) as connection:
        connection.execute("UPDATE import_file SET source = 'ftp://…'")  # however its address is shown
    assert inbox.clear_up() == 2
    assert inbox.statuses() == {"users-1.csv": "DONE", "users-2.csv": "FAILED"}
    assert (inbox.folder / "failed" / key / "users-2.csv").exists()
    assert not (inbox.folder / "users-1.csv").exists()
    with transaction(engine) as connection:
        row = connection.execute("SELECT note FROM file_drop WHERE status = 'FAILED'").fetchone()
    assert row == ("it has no column email",)
    assert inbox.clear_up() == 0


def test_a_file_is_not_deleted_while_ranges_of_its_import_are_dead_letters(inbox: Inbox, engine: Engine) -> None:
    inbox.set(after=After.DELETE, failed_folder=None)
    path = inbox.drop("users.csv")
    inbox.look()
    inbox.end_jobs(JobEvent.COMPLETE_WITH_ERRORS)
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET total_items = 1, dlq_items = 1")
    inbox.clear_up()
    assert path.exists()
    assert inbox.statuses() == {"users.csv": "FAILED"}
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET dlq_items = 0, succeeded_items = 1, finished_at = clock_timestamp()")
    assert inbox.clear_up() == 1
    assert not path.exists()
    assert inbox.statuses() == {"users.csv": "DONE"}


def test_a_file_whose_job_is_gone_does_not_hold_up_the_next_version(inbox: Inbox, engine: Engine) -> None:
    """The file's source was out of the configuration for so long that retention removed the job."""
    path = inbox.drop("users.csv")
    inbox.look()
    inbox.end_jobs(JobEvent.COMPLETE)
    with transaction(engine) as connection:
        connection.execute("DELETE FROM job")
    assert inbox.clear_up() == 1
    assert path.exists()
    with transaction(engine) as connection:
        row = connection.execute("SELECT status::text, note FROM file_drop").fetchone()
    assert row == ("FAILED", "its job was removed before the file was put away: nobody knows any more what came of it")
    path.write_text("id\n1\n2\n")
    assert inbox.look().taken == 1


class Late(LocalStorage):
    """A newer version, and its marker, come after the file was looked at and before it is put away."""

    def __init__(self, root: Path, arriving: str) -> None:
        super().__init__(root)
        self.arriving = arriving

    def stat(self, key: str) -> Entry:
        found = super().stat(key)
        if key == self.arriving:
            self.arriving = ""
            for name, text in [("users.csv", "id\n1\n2\n3\n"), ("users.csv.done", "newer")]:
                (self.root / f"{name}.tmp").write_text(text)
                (self.root / f"{name}.tmp").replace(self.root / name)
        return found


@pytest.mark.parametrize("after", [After.MOVE, After.DELETE])
@pytest.mark.parametrize("when", ["users.csv", "users.csv.done"])
def test_a_version_that_comes_while_the_old_one_is_put_away(
    inbox: Inbox, engine: Engine, after: After, when: str
) -> None:
    inbox.set(after=after, marker=".done")
    inbox.drop("users.csv")
    inbox.drop("users.csv.done", "older")
    inbox.look()
    inbox.end_jobs(JobEvent.COMPLETE)
    storage = Late(inbox.folder, arriving=when)
    assert put_away.clear_up(engine, inbox.source, lambda: storage) == 1
    assert storage.arriving == "", "the hook was reached"
    assert (inbox.folder / "users.csv").read_text() == "id\n1\n2\n3\n"
    assert (inbox.folder / "users.csv.done").read_text() == "newer"
    assert inbox.look().taken == 1


def test_a_marker_that_was_left_is_put_away_by_the_next_try(inbox: Inbox, engine: Engine) -> None:
    """The first try was killed after it had removed the file, and before it removed the marker."""
    inbox.set(after=After.DELETE, marker=".done")
    inbox.drop("users.csv").with_name("users.csv.done").write_text("")
    inbox.look()
    inbox.end_jobs(JobEvent.COMPLETE)
    (inbox.folder / "users.csv").unlink()
    assert inbox.clear_up() == 1
    assert list(inbox.folder.iterdir()) == []


def test_an_import_that_is_tried_again_and_ends_while_its_file_is_put_away(inbox: Inbox) -> None:
    """What was read of its first end must not be taken for a word on its second."""
    inbox.drop("users.csv")
    (key,) = inbox.look().jobs
    inbox.end_jobs(JobEvent.FAIL)
    left = [True]

    def meanwhile() -> Storage:
        if left:
            left.clear()
            with transaction(inbox.engine) as connection:
                jobs.move(connection, key, JobEvent.REDRIVE)
            inbox.end_jobs(JobEvent.COMPLETE)
        return inbox.storage()

    put_away.clear_up(inbox.engine, inbox.source, meanwhile)
    inbox.clear_up()
    assert inbox.statuses() == {"users.csv": "DONE"}
    assert inbox.clear_up() == 0
