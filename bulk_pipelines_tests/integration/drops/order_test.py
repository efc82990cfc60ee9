"""Which complete files have to wait, and for what."""

import os

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import look
from bulk_pipelines.drops.sources import After
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.inbox import Inbox


def test_a_new_version_waits_until_the_earlier_one_is_imported(inbox: Inbox) -> None:
    """Side by side, the older one could have the last word; and the same bytes would not be known yet."""
    path = inbox.drop("users.csv")
    inbox.look()
    path.write_text("id\n1\n2\n")
    looked = inbox.look()
    assert looked.taken == 0
    assert "1 waiting for the import of their earlier version" in str(looked)
    assert "not complete" not in str(looked)
    inbox.end_jobs(JobEvent.COMPLETE)
    assert inbox.look().taken == 0, "what its content was is not noted yet"
    inbox.clear_up()
    assert inbox.look().taken == 1


def test_the_same_bytes_again_while_they_are_imported_are_told_to_be_known(inbox: Inbox, engine: Engine) -> None:
    inbox.set(after=After.LEAVE)
    path = inbox.drop("users.csv")
    inbox.look()
    os.utime(path, (5, 5))
    inbox.look()
    file = {"source": LocalStorage(inbox.folder).url_of("users.csv"), "sha256": "ab"}
    inbox.end_jobs(JobEvent.COMPLETE, {"files": [file]})
    inbox.clear_up()
    inbox.look()
    assert inbox.known() == [[], ["ab"]]


def test_references_decide_the_order(inbox: Inbox, engine: Engine) -> None:
    for name in ("comments.csv", "articles.csv", "users.csv"):
        inbox.drop(name)
    inbox.look()
    assert inbox.taken() == [["users.csv"], ["articles.csv"], ["comments.csv"]]
    with transaction(engine) as connection:
        rows = connection.execute("SELECT job_id, waits_for FROM job ORDER BY job_id").fetchall()
    users, articles, comments = rows
    assert users[1] == []
    assert articles[1] == [users[0]]
    assert comments[1] == [users[0], articles[0]]


def test_what_refers_to_files_that_are_still_arriving_waits_for_them(inbox: Inbox, engine: Engine) -> None:
    inbox.drop("articles.csv")
    users = inbox.drop("users.csv")

    def grow(_: float) -> None:
        users.write_text(users.read_text() + "more\n")

    inbox.between = grow
    looked = inbox.look()
    assert looked.taken == 0
    assert "1 waiting for files that they refer to" in str(looked)
    assert "1 not complete yet" in str(looked)
    inbox.between = lambda _: None
    assert inbox.look().taken == 2
    assert inbox.taken() == [["users.csv"], ["articles.csv"]]


def test_nobody_waits_for_what_came_later_or_has_stalled(inbox: Inbox, engine: Engine) -> None:
    """Otherwise a source that never rests would have files that are never taken."""
    inbox.set(marker=".done")
    inbox.drop("users.csv")
    inbox.drop("articles.csv")
    inbox.drop("articles.csv.done", "")
    assert inbox.look().taken == 0
    for longer in (
        "UPDATE file_drop SET first_seen_at = now() - interval '2 hours' WHERE path = 'users.csv'",
        "UPDATE file_drop SET unchanged_since = now() - interval '1 minute' WHERE path = 'articles2.csv'",
    ):
        with transaction(engine) as connection:
            connection.execute(longer)
        assert inbox.look().taken == 1
        with transaction(engine) as connection:
            connection.execute("UPDATE file_drop SET first_seen_at = now() WHERE path = 'users.csv'")
        inbox.drop("articles2.csv")
        inbox.drop("articles2.csv.done", "")
        assert inbox.look().taken == 0


def test_what_others_refer_to_is_taken_first_also_when_not_all_can_be_taken(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "TAKEN_AT_A_TIME", 2)
    for name in ("articles-1.csv", "articles-2.csv", "users.csv"):
        inbox.drop(name)
    os.utime(inbox.folder / "users.csv")
    looked = inbox.look()
    assert "1 left for the next look" in str(looked)
    inbox.look()
    assert inbox.taken() == [["users.csv"], ["articles-1.csv"], ["articles-2.csv"]]
