"""Looks at a folder: every version of a file is taken once, whatever happens in between."""

import hashlib
import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.drops.look import File
from bulk_pipelines.drops.sources import After
from bulk_pipelines.engine.jobs.submission import Request, submit
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.imports import submission
from bulk_pipelines.storage import addresses, locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.contract import Page
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.inbox import KINDS, Inbox
from bulk_pipelines_tests.servers.processes import PASSWORD, USER, LoginServer, Place


def test_a_complete_file_is_taken_once(inbox: Inbox) -> None:
    inbox.drop("users.csv")
    looked = inbox.look()
    assert (looked.seen, looked.taken, len(looked.jobs)) == (1, 1, 1)
    assert str(looked) == f"inbox: 1 file seen, 1 taken, as {looked.jobs[0]}"
    assert inbox.look().taken == 0
    assert inbox.taken() == [["users.csv"]]


def test_a_file_that_is_still_growing_is_not_taken(inbox: Inbox) -> None:
    path = inbox.drop("users.csv")

    def grow(_: float) -> None:
        path.write_text(path.read_text() + "more\n")

    inbox.between = grow
    assert inbox.look().taken == 0
    assert inbox.look().taken == 0
    inbox.between = lambda _: None
    assert inbox.look().taken == 1


def test_a_file_must_have_been_still_for_long_enough(inbox: Inbox, engine: Engine) -> None:
    inbox.set(settle_seconds=60.0)
    inbox.drop("users.csv")
    assert inbox.look().taken == 0
    with transaction(engine) as connection:
        connection.execute("UPDATE file_drop SET unchanged_since = now() - interval '61 seconds'")
    assert inbox.look().taken == 1


@pytest.mark.parametrize("name", ["users.csv.part", "users.csv.tmp", ".users.csv", "users.csv~", "~users.csv"])
def test_temporary_names_are_never_taken(inbox: Inbox, name: str) -> None:
    path = inbox.drop(name)
    assert inbox.look().taken == 0
    assert inbox.look().taken == 0
    path.rename(inbox.folder / "users.csv")
    assert inbox.look().taken == 1


def test_with_a_marker_files_wait_for_theirs(inbox: Inbox) -> None:
    inbox.set(marker=".done")
    inbox.drop("users.csv")
    assert [inbox.look().taken, inbox.look().taken] == [0, 0]
    inbox.drop("users.csv.done", "")
    assert inbox.look().taken == 1


def test_a_new_version_is_a_new_import_and_an_old_time_is_no_matter(inbox: Inbox) -> None:
    path = inbox.drop("users.csv")
    inbox.look()
    inbox.end_jobs(JobEvent.COMPLETE)
    path.write_text("id\n1\n2\n")
    os.utime(path, (1, 1))
    inbox.clear_up()
    assert inbox.look().taken == 1
    assert inbox.look().taken == 0
    assert inbox.taken() == [["users.csv"], ["users.csv"]]


def test_the_contents_a_file_had_before_are_told_to_its_import(inbox: Inbox, engine: Engine) -> None:
    inbox.set(after=After.LEAVE)
    path = inbox.drop("users.csv")
    inbox.look()
    inbox.end_jobs(
        JobEvent.COMPLETE, {"files": [{"source": LocalStorage(inbox.folder).url_of("users.csv"), "sha256": "ab"}]}
    )
    assert inbox.clear_up() == 1
    os.utime(path, (5, 5))
    inbox.look()
    assert inbox.known()[-1] == ["ab"]


def test_a_marker_of_an_earlier_version_says_nothing_of_the_next(inbox: Inbox) -> None:
    """The next version is being uploaded under the same name, and the marker that lies there is older."""
    inbox.set(marker=".done", after=After.LEAVE)
    path = inbox.drop("users.csv")
    marker = inbox.drop("users.csv.done", "")
    assert inbox.look().taken == 1
    inbox.end_jobs(JobEvent.COMPLETE)
    inbox.clear_up()
    path.write_text("id\n1\n2\n")
    os.utime(marker, (1, 1))
    assert [inbox.look().taken, inbox.look().taken] == [0, 0]
    marker.touch()
    assert inbox.look().taken == 1


def test_a_look_that_dies_half_way_takes_nothing_and_the_next_takes_all(inbox: Inbox) -> None:
    inbox.drop("users.csv")
    inbox.drop("articles.csv")

    def dying(connection: Connection, source: str, files: Sequence[File], **rule: Any) -> tuple[int, str]:
        if rule["resource"] == "articles":
            raise KeyboardInterrupt
        return submission.submit_drop(connection, source, files, **rule)

    with pytest.raises(KeyboardInterrupt):
        inbox.look(submit=dying)
    assert inbox.taken() == []
    assert inbox.look().taken == 2
    assert inbox.taken() == [["users.csv"], ["articles.csv"]]


def test_two_daemons_at_once_take_a_file_once(inbox: Inbox) -> None:
    for number in range(20):
        inbox.drop(f"users_{number:02}.csv")
    barrier = threading.Barrier(4)

    def go() -> None:
        barrier.wait()
        inbox.look()

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    inbox.look()
    names = [name for job in inbox.taken() for name in job]
    assert sorted(names) == [f"users_{number:02}.csv" for number in range(20)]


def test_a_tick_says_what_was_dealt_with_before(inbox: Inbox) -> None:
    inbox.set(after=After.LEAVE)
    inbox.drop("users.csv")
    inbox.look()
    assert str(inbox.look()) == "inbox: 1 file seen, 0 taken, 1 dealt with before"


def test_many_small_files_are_few_jobs(inbox: Inbox) -> None:
    for number in range(2_000):
        inbox.drop(f"users_{number:04}.csv")
    began = time.monotonic()
    looked = inbox.look()
    assert (looked.taken, len(looked.jobs)) == (2_000, 4)
    assert time.monotonic() - began < 30
    again = inbox.look()
    assert (again.seen, again.taken) == (2_000, 0)


def test_files_with_a_long_history_are_more_jobs(inbox: Inbox, engine: Engine) -> None:
    """What a job is given is limited to a megabyte; and a file that is replaced every day has had many contents."""
    for number in range(40):
        inbox.drop(f"users-{number}.csv")
    inbox.drop("users-old.csv")
    with transaction(engine) as connection:
        earlier = submit(connection, KINDS, Request("import_users", "me", {})).job
        connection.execute(
            """INSERT INTO file_drop (source, path, version, size, resource, status, job_id, ended_at, sha256)
               SELECT 'inbox', path, version::text, 1, 'users', 'DONE', %s, now(),
                   encode(sha256(version::text::bytea), 'hex')
               FROM (
                   SELECT 'users-' || n || '.csv', version
                   FROM generate_series(0, 39) n, generate_series(1, 500) version
                   UNION ALL SELECT 'users-old.csv', version FROM generate_series(1, 20000) version
               ) AS history (path, version)""",
            [earlier.job_id],
        )
    looked = inbox.look()
    assert looked.taken == 41
    assert len(looked.jobs) == 1
    most = max(inbox.known(), key=len)
    assert len(most) == 1_000
    assert hashlib.sha256(b"20000").hexdigest() in most, "the newest of them"


def test_a_file_that_is_listed_twice_is_one(inbox: Inbox) -> None:
    """A folder may list a file twice if somebody writes to it meanwhile."""
    path = inbox.drop("users.csv")

    class Twice(LocalStorage):
        def pages(self, pattern: str = "**", aside: Collection[str] = ()) -> Iterator[Page]:
            yield from super().pages(pattern, aside)
            os.utime(path, (1, 1))
            yield from super().pages(pattern, aside)

    assert inbox.look(open_storage=lambda: Twice(inbox.folder)).taken == 1
    assert inbox.look().taken == 0


def test_a_bucket_is_listed_whole_over_the_pages_of_its_server(inbox: Inbox, s3_bucket: Place) -> None:
    count = 1_100  # a page of S3 has a thousand
    with locations.folder(s3_bucket.url, s3_bucket.access) as storage, ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda number: storage.put(f"users-{number:04}.csv", b"id\n1\n"), range(count)))
        inbox.set(max_files=500)
        looked = inbox.look(open_storage=lambda: locations.folder(s3_bucket.url, s3_bucket.access))
    assert (looked.seen, looked.taken, len(looked.jobs)) == (count, count, 3)


def test_an_import_logs_in_with_the_password_of_its_source(inbox: Inbox, ftp_server: LoginServer) -> None:
    """The import reads the file by an address that bears the password: each server may have another one."""
    place = ftp_server.place()
    inbox.set(where=place.url.replace(f"{USER}@", f"{USER}:{PASSWORD}@"))
    with locations.folder(inbox.source.where, Access()) as storage:
        storage.put("users.csv", b"id\n1\n")
    inbox.look(open_storage=lambda: locations.folder(inbox.source.where, Access()))
    with transaction(inbox.engine) as connection:
        row = connection.execute("SELECT address FROM import_file").fetchone()
    assert row is not None
    assert addresses.redacted(row[0]) == f"{place.url}/users.csv"
    with locations.Sources(Access()) as opened:
        source, key = opened.source(row[0])
        assert source.stat(key).size == 5


def test_what_never_becomes_complete_is_reported(inbox: Inbox, engine: Engine) -> None:
    inbox.set(settle_seconds=60.0)
    inbox.drop("users.csv")
    inbox.drop("articles.csv")
    inbox.look()
    (inbox.folder / "articles.csv").unlink()
    with transaction(engine) as connection:
        connection.execute("UPDATE file_drop SET first_seen_at = now() - interval '2 hours' WHERE path = 'users.csv'")
    looked = inbox.look()
    assert "articles.csv went away" in str(looked)
    assert "users.csv has been arriving for 120 minutes" in str(looked)
