"""Dropped files whose names are as odd as names of files may be."""

import os
import unicodedata

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops.sources import After
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines_tests.scenes.inbox import Inbox

LONG = "users" + "é" * 123 + ".csv"
NAMES = [
    LONG,
    "users -rf.csv",
    "users'; DROP TABLE users; --.csv",
    'users %s {} $(touch x) `x` ".csv',
    unicodedata.normalize("NFC", "users é.csv"),
    unicodedata.normalize("NFD", "users é.csv"),
    "Users.csv",
    "users.csv",
    "users\u202ecod.csv",
    "users #?&=+.csv",
]


@pytest.mark.parametrize("after", [After.MOVE, After.DELETE])
def test_they_are_imported_once_and_put_away(inbox: Inbox, engine: Engine, after: After) -> None:
    assert len(os.fsencode(LONG)) == 255
    inbox.set(after=after)
    for name in NAMES:
        inbox.drop(name, f"{name}\n")
    for name in ("users\n.csv", "users\\.csv"):
        inbox.drop(name)
    (inbox.folder / "users dir.csv").mkdir()
    os.mkfifo(inbox.folder / "users fifo.csv")
    (inbox.folder / "users loop.csv").symlink_to("users loop.csv")
    looked = inbox.look()
    wanted = [name for name in NAMES if name.startswith("users")]
    assert (looked.taken, looked.left_out) == (len(wanted), 2), str(looked)
    assert sorted(name for names in inbox.taken() for name in names) == sorted(wanted)
    inbox.end_jobs(JobEvent.COMPLETE)
    assert inbox.clear_up() == len(wanted)
    with transaction(engine) as connection:
        notes = connection.execute("SELECT path, note FROM file_drop WHERE note IS NOT NULL").fetchall()
    assert notes == []
    left = {path.name for path in inbox.folder.iterdir()}
    assert not left & set(wanted)
    done = {path.name for path in (inbox.folder / "done").rglob("*") if path.is_file()}
    assert done == (set(wanted) if after is After.MOVE else set())


def test_a_file_where_the_folder_should_be_is_told(inbox: Inbox, engine: Engine) -> None:
    inbox.set(after=After.MOVE)
    inbox.drop("done", "a file of this name")
    dropped = inbox.drop("users.csv")
    inbox.look()
    inbox.end_jobs(JobEvent.COMPLETE)
    inbox.clear_up()
    with transaction(engine) as connection:
        (note,) = connection.execute("SELECT note FROM file_drop WHERE path = 'users.csv'").fetchone() or (None,)
    assert dropped.exists()
    assert note is not None
    assert "could not be put away" in note
