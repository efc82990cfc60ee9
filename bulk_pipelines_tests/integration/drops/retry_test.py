"""Files whose import failed are taken again when a person says so; and what went away for a while is not lost."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.drops import put_away
from bulk_pipelines.drops import retry as retrying
from bulk_pipelines.drops.retry import Dropped
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.errors import Conflict, NotFound
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.contract import Entry, Storage
from bulk_pipelines.storage.errors import Missing
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.inbox import Inbox
from bulk_pipelines_tests.servers.processes import Place


def failed(inbox: Inbox, name: str = "users.csv") -> None:
    inbox.drop(name)
    inbox.look()
    inbox.end_jobs(JobEvent.FAIL)
    inbox.clear_up()
    assert inbox.statuses()[name] == "FAILED"


def retry(inbox: Inbox, path: str, source: str | None = None) -> Dropped:
    return retrying.retry(inbox.engine, {"inbox": inbox.source}, Access(), path, source)


@pytest.mark.parametrize("failed_folder", ["failed", None])
def test_a_failed_file_is_taken_again(inbox: Inbox, failed_folder: str | None) -> None:
    inbox.set(failed_folder=failed_folder)
    failed(inbox)
    assert inbox.look().taken == 0
    assert retry(inbox, "users.csv").source == "inbox"
    assert (inbox.folder / "users.csv").exists()
    assert inbox.look().taken == 1
    assert inbox.taken() == [["users.csv"], ["users.csv"]]
    assert inbox.look().taken == 0


@pytest.mark.parametrize("failed_folder", ["failed", None])
def test_a_failed_file_with_a_marker_is_taken_again(inbox: Inbox, failed_folder: str | None) -> None:
    inbox.set(failed_folder=failed_folder, marker=".done")
    inbox.drop("users.csv.done", "")
    inbox.drop("users.csv")
    (inbox.folder / "users.csv.done").touch()
    inbox.look()
    inbox.end_jobs(JobEvent.FAIL)
    inbox.clear_up()
    retry(inbox, "users.csv")
    assert inbox.look().taken == 1


@pytest.mark.parametrize("where", ["s3_bucket", "ftp_server"])
def test_a_failed_file_with_a_marker_is_taken_again_on_a_server(
    inbox: Inbox, request: pytest.FixtureRequest, where: str
) -> None:
    """A file that is moved there may have another time than before."""
    made = request.getfixturevalue(where)
    place = made if isinstance(made, Place) else made.place()

    def storage() -> Storage:
        return locations.folder(place.url, place.access)

    inbox.set(where=place.url, failed_folder="failed", marker=".done")
    with storage() as opened:
        opened.put("users.csv", b"id\n1\n")
        assert inbox.look(open_storage=storage).taken == 0
        opened.put("users.csv.done", b"5 bytes")
        (key,) = inbox.look(open_storage=storage).jobs
        inbox.end_jobs(JobEvent.FAIL)
        assert put_away.clear_up(inbox.engine, inbox.source, storage) == 1
        assert sorted(each.key for each in opened.entries()) == [
            f"failed/{key}/users.csv",
            f"failed/{key}/users.csv.done",
        ]
        retrying.retry(inbox.engine, {"inbox": inbox.source}, place.access, "users.csv", None)
        assert sorted(each.key for each in opened.entries()) == ["users.csv", "users.csv.done"]
        assert opened.read("users.csv.done") == b"5 bytes"
    assert inbox.look(open_storage=storage).taken == 1


def test_it_goes_on_where_it_was_cut_short(inbox: Inbox) -> None:
    failed(inbox)
    (aside,) = (inbox.folder / "failed").rglob("users.csv")
    aside.replace(inbox.folder / "users.csv")
    assert inbox.look().taken == 0, "put back, and not yet to be taken"
    retry(inbox, "users.csv")
    assert inbox.look().taken == 1


def test_what_cannot_be_taken_again_says_why(inbox: Inbox) -> None:
    with pytest.raises(NotFound, match="knows no file users.csv"):
        retry(inbox, "users.csv")
    inbox.drop("users.csv")
    inbox.look()
    with pytest.raises(Conflict, match="users.csv is TAKEN: only a file that failed"):
        retry(inbox, "users.csv")
    inbox.end_jobs(JobEvent.FAIL)
    inbox.clear_up()
    with pytest.raises(NotFound, match="of the source elsewhere"):
        retry(inbox, "users.csv", "elsewhere")
    with pytest.raises(Conflict, match="not configured any more"):
        retrying.retry(inbox.engine, {}, Access(), "users.csv", None)
    inbox.drop("users.csv", "id\nanother\n")
    with pytest.raises(Conflict, match="another version of users.csv lies there"):
        retry(inbox, "users.csv")
    (inbox.folder / "users.csv").unlink()
    (aside,) = (inbox.folder / "failed").rglob("users.csv")
    aside.unlink()
    with pytest.raises(NotFound, match="drop it again"):
        retry(inbox, "users.csv")
    assert inbox.statuses() == {"users.csv": "FAILED"}


def test_two_sources_that_know_the_name(inbox: Inbox, engine: Engine, tmp_path: Path) -> None:
    failed(inbox)
    other = Inbox(engine, tmp_path / "other")
    other.source = replace(other.source, name="other", settle_seconds=0.0)
    failed(other)
    both = {"inbox": inbox.source, "other": other.source}
    with pytest.raises(Conflict, match="several sources, name one: inbox, other"):
        retrying.retry(engine, both, Access(), "users.csv", None)
    retrying.retry(engine, both, Access(), "users.csv", "other")
    assert (inbox.look().taken, other.look().taken) == (0, 1)


def bulk(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["drops", *arguments])


def test_the_commands(engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    monkeypatch.setenv("BULK_HOME", str(tmp_path))
    monkeypatch.setenv("BULK_DROPS_FILE", str(tmp_path / "drops.toml"))
    monkeypatch.chdir(tmp_path)
    assert bulk("list").output == "no file is in the ledger\n"
    inbox = Inbox(engine, tmp_path / "inbox")
    inbox.set()
    failed(inbox)
    inbox.drop("articles.csv")
    (key,) = inbox.look().jobs
    newest, oldest = bulk("list").output.splitlines()
    assert newest.endswith(f"inbox  articles.csv  TAKEN  {key}")
    assert "inbox  users.csv  FAILED  J" in oldest
    assert oldest.endswith("it was bad")
    assert bulk("list", "--state", "failed").output == f"{oldest}\n"
    assert bulk("list", "--source", "partner").output == "no such file is in the ledger\n"
    inbox.drop("usres.csv")
    inbox.look()
    assert bulk("list").output.startswith(bulk("list", "--state", "unmatched").output)
    assert bulk("list", "--state", "unmatched").output.endswith(
        "inbox  usres.csv  UNMATCHED  no rule of this source is for it\n"
    )
    assert bulk("retry", "users.csv").output == "inbox: users.csv is taken again by the next look\n"
    assert inbox.look().taken == 1
    again = bulk("retry", "users.csv")
    assert again.exit_code == 1
    assert again.output == "Error: users.csv is TAKEN: only a file that failed is taken again\n"


def test_a_file_that_went_away_before_it_was_complete_and_is_there_again(inbox: Inbox) -> None:
    """The file comes back with its old time. Since it was never taken, it is taken now; or a glitch of a listing would
    lose it."""
    inbox.set(settle_seconds=3_600.0)
    path = inbox.drop("users.csv")
    inbox.look()
    path.rename(inbox.folder / "users.csv.part")
    assert inbox.look().vanished == ("users.csv",)
    (inbox.folder / "users.csv.part").rename(path)
    assert inbox.look().taken == 0
    inbox.set(settle_seconds=0.0)
    assert inbox.look().taken == 1
    assert inbox.look().taken == 0


class Late(LocalStorage):
    """A newer version comes after it was seen that none lies there."""

    def stat(self, key: str) -> Entry:
        try:
            return super().stat(key)
        except Missing:
            (self.root / "users.csv").write_text("newer")
            raise


def test_a_version_that_comes_while_the_failed_one_is_put_back_stays(inbox: Inbox) -> None:
    failed(inbox)
    with inbox.engine.connect() as connection:
        key = connection.exec_driver_sql("SELECT job_key FROM job").scalar()
    file = Dropped(1, "inbox", "users.csv", "old", "FAILED", key, taken_up_again=False)
    with pytest.raises(Conflict, match="another version of users.csv lies there now"):
        retrying.put_back(Late(inbox.folder), inbox.source, file)
    assert (inbox.folder / "users.csv").read_text() == "newer"
    assert (inbox.folder / "failed" / str(key) / "users.csv").exists()
